package deploy

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
}

// Prometheus understands what each panel asks, and has the metric.
func TestDashboard(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "grafana/lockproxy.json")), &d); err != nil {
		t.Fatal(err)
	}
	table, ids := page(t, "operations.md"), map[int]bool{}
	var rules strings.Builder
	rules.WriteString("groups:\n- name: panels\n  rules:\n")
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("the panel %d %q is not whole", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			for _, name := range ours.FindAllString(target.Expr, -1) {
				name = strings.TrimSuffix(name, "_bucket")
				if !strings.Contains(table, "`"+name+"`") && !strings.Contains(table, "`"+name+"{") {
					t.Errorf("%s: docs/operations.md has no metric %s", p.Title, name)
				}
			}
			// Grafana fills these in; a rule with the query shows that it is one.
			expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "1m")
			quoted, err := json.Marshal(expr)
			if err != nil {
				t.Fatal(err)
			}
			rules.WriteString("  - {record: panel, expr: " + string(quoted) + "}\n")
		}
	}
	file := filepath.Join(t.TempDir(), "panels.yaml")
	write(t, file, rules.String())
	if said, ok := promtool(t, file, "check", "rules", "--lint=none"); !ok {
		t.Errorf("promtool check rules: %s", said)
	}
	if len(d.Panels) < 10 {
		t.Errorf("%d panels only", len(d.Panels))
	}
}
