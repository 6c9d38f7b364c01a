package tool

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Man writes the manual page, in the macros of man(7).
func (p *Program) Man(w io.Writer) {
	r := &roff{w: w}
	r.line(`.TH LOCKPROXY 1 "" "lockproxy %s" "User Commands"`, p.Version)
	r.line(".SH NAME")
	r.text("lockproxy - Redis for any client in front of a cluster, with lock verbs; and tools for its users")
	r.line(".SH SYNOPSIS")
	r.line(".B lockproxy")
	r.line(`[\fB\-\-\fIsetting value\fR]...`)
	for _, m := range p.Table {
		r.line(".br")
		r.bold("lockproxy " + m.Name)
		r.text(strings.TrimPrefix(m.Usage(), "lockproxy "+m.Name))
	}
	r.line(".SH DESCRIPTION")
	r.text("Without a subcommand lockproxy runs the proxy: clients connect to it as to one Redis, ordinary " +
		"commands go to the upstream, and the lock verbs (LOCK, UNLOCK, RENEW and others) take and free " +
		"distributed locks. With one it does something else, and ends.")
	for _, m := range p.Table {
		r.command(m)
	}
	p.manSettings(r)
	r.line(".SH EXIT STATUS")
	r.text("The proxy ends with 0 when it was asked to end, with 1 if something outside is wrong, " +
		"and with 2 if the settings are. Subcommands have the codes that stand with them, from sysexits.h " +
		"where it has one.")
	r.line(".SH SEE ALSO")
	r.line(`.BR redis\-cli (1)`)
}

// command is the part of one subcommand.
func (r *roff) command(m *Command) {
	r.line(`.SH "LOCKPROXY %s"`, strings.ToUpper(m.Name))
	r.bold(m.Usage())
	r.line(".PP")
	r.text(m.Summary + ".")
	for _, paragraph := range m.paragraphs() {
		r.line(".PP")
		r.text(paragraph)
	}
	for _, f := range m.Flags() {
		r.line(".TP")
		r.line(`.BI "\-\-%s" " %s"`, literal(f.Name), literal(f.Value))
		r.text(f.explained() + ".")
	}
	for i, v := range m.Gives {
		if i == 0 {
			r.line(".PP")
			r.text("Variables of the command:")
		}
		r.line(".TP")
		r.bold(v.Name)
		r.text(v.Meaning + ".")
	}
	r.line(".PP")
	r.text("Exit codes:")
	for _, e := range m.exits() {
		r.line(".TP")
		r.bold(fmt.Sprint(e.Code))
		r.text(e.Meaning + ".")
	}
	r.line(".PP")
	r.text("Examples:")
	for _, e := range m.Examples {
		r.line(".PP")
		r.text(e.What + ":")
		r.line(".PP")
		r.line(".RS 4")
		r.line(".nf")
		r.line("%s", guarded(literal(e.Line)))
		r.line(".fi")
		r.line(".RE")
	}
}

// manSettings is the part of all settings.
func (p *Program) manSettings(r *roff) {
	r.line(".SH SETTINGS")
	r.text("Each setting is a flag, a variable (LOCKPROXY_LOCK_LEASE=30s) and a line of the file of " +
		"--config (lock-lease 30s). A flag wins over a variable, that over the file.")
	group := ""
	for _, s := range p.Settings {
		if s.Group != group {
			group = s.Group
			r.line(".SS %s", strings.ToUpper(group[:1])+group[1:])
		}
		r.line(".TP")
		r.line(`.BI "\-\-%s" " %s"`, literal(s.Name), "value")
		r.text(plain(s.Help) + ".")
		r.text("Allowed: " + s.Allowed + ". Default: " + cmp.Or(s.Default, "none") + ".")
	}
}

var (
	link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	// special are the bytes that roff reads otherwise, and those that it does not know.
	special = regexp.MustCompile(`[\\~^'"` + "`" + `-]|[^\x00-\x7f]`)
)

// plain is Markdown without its marks.
func plain(s string) string {
	return strings.ReplaceAll(link.ReplaceAllString(s, "$1"), "`", "")
}

// roff writes lines of a manual page.
type roff struct{ w io.Writer }

func (r *roff) line(format string, args ...any) { fmt.Fprintf(r.w, format+"\n", args...) }

// text writes words, in lines that are not too long for tools of 1980.
func (r *roff) text(s string) {
	line := ""
	for _, word := range strings.Fields(literal(s)) {
		if line != "" && len(line)+1+len(word) > longest {
			r.line("%s", guarded(line))
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	if line != "" {
		r.line("%s", guarded(line))
	}
}

// longest is the length of a line of text in the source of a manual page.
const longest = 78

func (r *roff) bold(s string) { r.line(`.B "%s"`, literal(s)) }

// guarded is a line that is no request of roff, however it begins.
func guarded(s string) string {
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		return `\&` + s
	}
	return s
}

// literal is s with each byte as itself: what people copy from a manual page must work.
func literal(s string) string {
	return special.ReplaceAllStringFunc(s, func(c string) string {
		switch c {
		case `\`:
			return `\e`
		case "-":
			return `\-`
		case "'":
			return `\(aq`
		case `"`:
			return `\(dq`
		case "`":
			return `\(ga`
		case "^":
			return `\(ha`
		case "~":
			return `\(ti`
		}
		return fmt.Sprintf(`\[u%04X]`, []rune(c)[0])
	})
}
