package settings

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"lockproxy/cluster/discovery"
	"lockproxy/proxy"
)

var update = flag.Bool("update", false, "write the table of docs/settings.md anew")

func TestSettingsTable(t *testing.T) {
	v := Defaults()
	names := make(map[string]bool)
	for i, s := range settings {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(s.Name) || names[s.Name] {
			t.Errorf("%s: not a name, or one that is taken", s.Name)
		}
		names[s.Name] = true
		if s.Help == "" || s.Group == "" || s.at.Allowed == "" {
			t.Errorf("%s: lacks a text", s.Name)
		}
		if i > 0 && s.Group != settings[i-1].Group &&
			strings.Contains(" "+groupsBefore(i)+" ", " "+s.Group+" ") {
			t.Errorf("%s: its group stands in two places", s.Name)
		}
		unset := &Values{Upstream: discovery.DefaultOptions(), Proxy: proxy.DefaultOptions()}
		if s.Default != "" && s.in(unset).String() == s.in(v).String() {
			t.Errorf("%s: the row repeats the default of its package", s.Name)
		}
		// What CONFIG GET answers can be given again.
		in := s.in(v)
		shown := in.String()
		if err := in.Set(shown); err != nil && shown != "" {
			t.Errorf("%s: %q cannot be set: %v", s.Name, shown, err)
		}
		if in.String() != shown {
			t.Errorf("%s: %q became %q", s.Name, shown, in)
		}
	}
}

func groupsBefore(i int) string {
	var all []string
	for _, s := range settings[:i] {
		all = append(all, s.Group)
	}
	return strings.Join(all, " ")
}

func TestDocsTellTheSettings(t *testing.T) {
	const path, begin, end = "../../../docs/settings.md", "<!-- settings -->\n", "<!-- end of settings -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	table, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("docs/settings.md has no table between %s and %s", begin, end)
	}
	if *update {
		table = settingsTable()
		if err := os.WriteFile(path, []byte(head+begin+table+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if table != settingsTable() {
		t.Error("the table of docs/settings.md is not the one of the program (go test -update writes it)")
	}
}

// settingsTable is the table of docs/settings.md.
func settingsTable() string {
	var b strings.Builder
	b.WriteString("| setting | default | allowed | changes | what it is |\n|---|---|---|---|---|\n")
	for _, s := range table(Defaults()) {
		shown := s.at.Brief()
		if shown != "" {
			shown = "`" + strings.ReplaceAll(shown, "|", `\|`) + "`" // a bare one ends the cell
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.Name, shown, s.at.Allowed, s.changes(), s.Help)
	}
	return b.String()
}

// changes says how the setting of a running proxy is changed.
func (s *Setting) changes() string {
	switch {
	case s.same != nil:
		return "restart, all alike"
	case s.settable():
		return "live"
	case s.live:
		return "SIGHUP"
	}
	return "restart"
}
