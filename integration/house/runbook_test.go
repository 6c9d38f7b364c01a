package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	runbookPage = "../../docs/runbook.md"
	alertsFile  = "../../docs/deploy/prometheus/alerts.yaml"
)

// noAction are lines at WARN and ERROR after which nobody on call has anything to do, and why not.
var noAction = map[string]string{
	"the CPU quota could not be read": "the proxy takes the processors of the host instead",
	"dev: one Redis in the memory of this process; nothing survives it, and no other proxy " +
		"shares its locks": "it says what --dev is",
}

// variedLines are lines whose text is made of several, by the file and the expression that writes them.
var variedLines = map[string][]string{
	"cluster/discovery/losses.go first": {
		"node lost", "node is still lost", "slots have no master", "slots still have no master",
	},
	"NotRenewed": {
		"a connection could not take over the new password: it goes on with the one before",
	},
	"redlock/keepalive/kept.go level": {"lock lost"},
}

// passOn are the places that write what another place, which is looked at itself, has given them.
var passOn = map[string]bool{
	"cluster/discovery/losses.go text": true, "cluster/master/master.go text": true,
	"internal/journal/lines.go text": true, "proxy/login/failures.go message": true,
	"redlock/locks/locker.go text": true,
}

// Each line of the log at WARN and ERROR stands in the runbook, or nothing is to be done about it.
func TestRunbookHasLogLines(t *testing.T) {
	text, found := runbookText(t), map[string]bool{}
	eachSource(t, func(file string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				for _, line := range loggedBy(t, file, call) {
					found[line] = true
				}
			}
			return true
		})
	})
	if len(found) < 60 {
		t.Errorf("%d lines only", len(found))
	}
	for line := range found {
		begin, _, _ := strings.Cut(line, ";")
		begin, _, _ = strings.Cut(begin, "): ") // what a long line goes on with
		if noAction[line] == "" && !strings.Contains(text, "`"+begin) {
			t.Errorf("docs/runbook.md does not tell of the line %q", line)
		}
	}
	for line := range noAction {
		if !found[line] {
			t.Errorf("nothing logs %q any more", line)
		}
	}
}

// loggedBy are the texts that a call logs at WARN or ERROR; none if it does not log.
func loggedBy(t *testing.T, file string, call *ast.CallExpr) []string {
	name := ""
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
		name = sel.Sel.Name
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "http" {
			return nil
		}
	}
	at := -1
	switch {
	case (name == "Warn" || name == "Error") && len(call.Args) > 0:
		at = 0
	case name == "Note" && len(call.Args) > 1, name == "TellUntold":
		at = 1
	}
	for i, arg := range call.Args { // slog.LevelWarn, "text"; or a level that depends
		sel, ok := arg.(*ast.SelectorExpr)
		id, varies := arg.(*ast.Ident)
		if ok && (sel.Sel.Name == "LevelWarn" || sel.Sel.Name == "LevelError") ||
			varies && id.Name == "level" && name != "" { // a logger has methods
			at = i + 1
		}
	}
	if at < 0 || at >= len(call.Args) {
		return nil
	}
	return textsOf(t, file, call.Args[at])
}

// Each line of the log at INFO stands there, too.
func TestRunbookHasInfo(t *testing.T) {
	text, found := runbookText(t), 0
	eachSource(t, func(file string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			at := -1
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Info" {
				at = 0
			}
			for i, arg := range call.Args {
				if sel, ok := arg.(*ast.SelectorExpr); ok && sel.Sel.Name == "LevelInfo" {
					at = i + 1
				}
			}
			if at < 0 || at >= len(call.Args) {
				return true
			}
			if line, ok := joined(call.Args[at]); ok {
				found++
				if !strings.Contains(text, "`"+line+"`") {
					t.Errorf("docs/runbook.md does not tell of the line %q of %s", line, file)
				}
			}
			return true
		})
	})
	if found < 25 {
		t.Errorf("%d lines only", found)
	}
}

// textsOf are the texts that an expression stands for.
func textsOf(t *testing.T, file string, e ast.Expr) []string {
	if text, ok := joined(e); ok {
		return []string{text}
	}
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = file + " " + e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	}
	if lines := variedLines[name]; lines != nil || passOn[name] {
		return lines
	}
	t.Errorf("%s logs a text that is not known here: %q", file, name)
	return nil
}

// joined is a text of one or more literals.
func joined(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, ok := joined(e.X)
		right, too := joined(e.Y)
		return left + right, ok && too
	}
	return "", false
}

var (
	errorWord = regexp.MustCompile(`^-?([A-Z]{3,}) [a-z%]`)
	luaWord   = regexp.MustCompile(`err = '([A-Z]{3,}) `)
	tableWord = regexp.MustCompile("(?m)^\\| ((?:`[A-Z]+`(?:, )?)+) \\|")
)

// notErrors are words with which other texts begin: names of commands and options, and what scripts tell the
// proxy alone.
var notErrors = strings.Fields(`ACL EVALSHA EXEC FENCE INFO LINGER LIST LOCK MATCH MAX META NOTIFY
	NUL OPTIN PEM PREFIX PUBLISH
	RESET RESP SCAN SENTINELS SET SPUBLISH SSUBSCRIBE SUBSCRIBE TLS TRIES WAIT`)

// Each word with which an error of lockproxy begins stands in the runbook.
func TestRunbookHasErrors(t *testing.T) {
	text, words := runbookText(t), map[string]bool{}
	eachSource(t, func(file string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok {
				return true
			}
			said, _ := strconv.Unquote(lit.Value)
			if m := errorWord.FindStringSubmatch(said); m != nil {
				words[m[1]] = true
			}
			return true
		})
	})
	scripts, _ := filepath.Glob("../../redlock/scripts/*.lua")
	for _, file := range append(scripts, "../../docs/locks.md") {
		all, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range luaWord.FindAllStringSubmatch(string(all), -1) {
			words[m[1]] = true
		}
		_, table, _ := strings.Cut(string(all), "\n## Errors\n")
		for _, m := range tableWord.FindAllStringSubmatch(table, -1) {
			for _, word := range strings.Split(m[1], ", ") {
				words[strings.Trim(word, "`")] = true
			}
		}
	}
	for _, word := range notErrors {
		delete(words, word)
	}
	if len(words) < 15 {
		t.Errorf("%d words only", len(words))
	}
	_, table, _ := strings.Cut(text, "\n## What clients are told\n")
	for word := range words {
		if !strings.Contains(table, "`"+word+"`") {
			t.Errorf("docs/runbook.md does not tell of the error %s", word)
		}
	}
}

var (
	alertParts  = regexp.MustCompile(`(?s)- alert: (\w+)\n(.*?)docs/runbook\.md#([a-z-]+): `)
	alertMetric = regexp.MustCompile(`(?:lockproxy|process)_[a-z_]+`)
)

// Each alert leads to the section of the runbook that names it and its metrics.
func TestRunbookHasAlerts(t *testing.T) {
	sections, text := map[string]string{}, runbookText(t)
	for _, part := range strings.Split(text, "\n## ")[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		title = strings.ReplaceAll(strings.ToLower(title), " ", "-")
		sections[strings.ReplaceAll(title, ",", "")] = rest
	}
	for _, m := range regexp.MustCompile(`\]\(#([a-z-]+)\)`).FindAllStringSubmatch(text, -1) {
		if sections[m[1]] == "" {
			t.Errorf("docs/runbook.md has no heading for #%s", m[1])
		}
	}
	alerts, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	found := alertParts.FindAllStringSubmatch(string(alerts), -1)
	if n := strings.Count(string(alerts), "- alert: "); n < 20 || n != len(found) {
		t.Errorf("%d alerts, %d of them lead to the runbook", n, len(found))
	}
	for _, m := range found {
		section := sections[m[3]]
		if !strings.Contains(section, "**"+m[1]+"**") {
			t.Errorf("docs/runbook.md#%s does not name %s", m[3], m[1])
		}
		expr, _, _ := strings.Cut(m[2], "annotations:")
		for _, metric := range alertMetric.FindAllString(expr, -1) {
			if !regexp.MustCompile("`" + metric + "[`{]").MatchString(section) {
				t.Errorf("docs/runbook.md#%s does not name %s of %s", m[3], metric, m[1])
			}
		}
	}
}

func runbookText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(runbookPage)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// eachSource calls look with each file of the program, by its path in the project.
func eachSource(t *testing.T, look func(file string, f *ast.File)) {
	t.Helper()
	for _, folder := range []string{"cluster", "cmd", "commands", "internal", "proxy", "redlock"} {
		err := filepath.WalkDir("../../"+folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.HasPrefix(path, "../../cluster/internal/") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err == nil {
				look(strings.TrimPrefix(path, "../../"), f)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
