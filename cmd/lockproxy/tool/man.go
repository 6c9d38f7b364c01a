package tool

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// manWidth is how many columns the manual page has for flags.
const manWidth = 74

// Man writes the manual page of root, whose flags are the settings of the proxy, in the macros of man(7):
// what
// help says, as it stands there.
func Man(w io.Writer, root *cobra.Command, version string) {
	// The date is left out, so that the same version makes the same page.
	fmt.Fprintf(w, ".TH LOCKPROXY 1 \"\" \"lockproxy %s\" \"User Commands\"\n", version)
	// Paragraphs are parted by blank lines; one with indented lines is shown as it stands.
	section := func(name, text string) {
		fmt.Fprintf(w, ".SH \"%s\"\n", name)
		for i, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
			if i > 0 {
				fmt.Fprintln(w, ".PP")
			}
			if paragraph = literal(paragraph); strings.Contains(paragraph, "\n ") { // a table
				paragraph = ".nf\n" + paragraph + "\n.fi"
			}
			fmt.Fprintln(w, paragraph)
		}
	}
	fmt.Fprintf(w, ".SH NAME\nlockproxy \\- %s\n", root.Short)
	synopsis := "  " + root.UseLine() + "\n"
	for _, c := range root.Commands() {
		synopsis += "  " + c.UseLine() + "\n"
	}
	section("SYNOPSIS", synopsis)
	section("DESCRIPTION", `Without a subcommand lockproxy runs the proxy: clients connect to it as to
one Redis, ordinary commands go to the upstream, and the lock verbs (LOCK,
UNLOCK, RENEW and others) take and free distributed locks. With one it does
something else, and ends.`)
	for _, c := range root.Commands() {
		c.InitDefaultHelpFlag()
		section("LOCKPROXY "+strings.ToUpper(c.Name()), helpOf(c, manWidth))
	}
	section("SETTINGS", root.Long+flags(root, manWidth))
	section("EXIT STATUS", `The proxy ends with 0 when it was asked to end, with 1 if something outside
is wrong, and with 2 if the settings are. Subcommands have the codes that
stand with them, from sysexits.h where it has one.`)
	fmt.Fprintf(w, ".SH \"SEE ALSO\"\n.BR redis\\-cli (1)\n")
}

// special are the bytes that roff reads otherwise, those that it does not know, and lines that would be
// requests. A line that begins with a dot or a quote would be a request.
var special = regexp.MustCompile(`(?m)^[.']|[\\~^'"` + "`" + `-]|[^\x00-\x7f]`)

// named are the escapes of roff for bytes that it reads otherwise.
var named = map[string]string{`\`: `\e`, "-": `\-`, "'": `\(aq`, `"`: `\(dq`, "`": `\(ga`, "^": `\(ha`,
	"~": `\(ti`, ".": `\&.`}

// literal is s with each byte as itself: what people copy from a manual page must work.
func literal(s string) string {
	return special.ReplaceAllStringFunc(s, func(c string) string {
		if escape, ok := named[c]; ok {
			return escape
		}
		return fmt.Sprintf(`\[u%04X]`, []rune(c)[0])
	})
}
