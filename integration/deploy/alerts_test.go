package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const alerts = "prometheus/alerts.yaml"

// promtool returns what it says of a file of docs/deploy.
func promtool(t *testing.T, file string, args ...string) (said string, ok bool) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Fatalf("%v: integration/install.sh installs it", err)
	}
	out, err := exec.Command("promtool", append(args, file)...).CombinedOutput()
	return string(out), err == nil
}

func TestAlerts(t *testing.T) {
	if said, ok := promtool(t, filepath.Join(folder, alerts), "check", "rules"); !ok {
		t.Errorf("promtool check rules: %s", said)
	}
	if said, ok := promtool(t, filepath.Join(folder, "prometheus/alerts-test.yaml"), "test", "rules"); !ok {
		t.Errorf("promtool test rules: %s", said)
	}
}

// The tests of the alerts notice one that fires too late, too early, or for too much.
func TestAlertsWithMistakes(t *testing.T) {
	for right, wrong := range map[string]string{
		" lockproxy_ready == 0\n        for: 30s":    " lockproxy_ready == 0\n        for: 30m",
		`reason=~"expired|gone"`:                     `reason=~".*"`,
		") <= count":                                 ") < 0 * count",
		"(lockproxy_clients_memory_limit_bytes > 0)": "lockproxy_clients_memory_limit_bytes",
		" and lockproxy_node_connections == 0":       "",
		`outcome="failed"}[5m]`:                      `outcome="refused"}[5m]`,
	} {
		text := read(t, alerts)
		if !strings.Contains(text, right) {
			t.Errorf("no alert has %q", right)
		}
		dir := t.TempDir()
		write(t, filepath.Join(dir, "alerts.yaml"), strings.Replace(text, right, wrong, 1))
		write(t, filepath.Join(dir, "alerts-test.yaml"), read(t, "prometheus/alerts-test.yaml"))
		if said, ok := promtool(t, filepath.Join(dir, "alerts-test.yaml"), "test", "rules"); ok {
			t.Errorf("%q instead of %q: %s", wrong, right, said)
		}
	}
}

var (
	ours    = regexp.MustCompile(`lockproxy_[a-z_]+`)
	runbook = regexp.MustCompile(`docs/([a-z-]+\.md)(?:#([a-z-]+))?:`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// Each metric stands in the table of docs/operations.md, which another test compares with /metrics.
func TestMetricsOfAlerts(t *testing.T) {
	table := page(t, "operations.md")
	for _, name := range ours.FindAllString(read(t, alerts), -1) {
		if !strings.Contains(table, "`"+name+"`") && !strings.Contains(table, "`"+name+"{") {
			t.Errorf("docs/operations.md has no metric %s", name)
		}
	}
}

// Each alert says where to read on, and that place is there.
func TestRunbooks(t *testing.T) {
	text := read(t, alerts)
	found := runbook.FindAllStringSubmatch(text, -1)
	n := strings.Count(text, "- alert: ")
	if n < 20 || n != len(found) || n != strings.Count(text, "runbook: ") {
		t.Errorf("%d alerts, %d places to read on", n, len(found))
	}
	for _, m := range found {
		if m[2] != "" && !anchors(page(t, m[1]))[m[2]] {
			t.Errorf("docs/%s has no heading for #%s", m[1], m[2])
		}
	}
}

// anchors are those of the headings of a page.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		name := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		all[regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(name, "")] = true
	}
	return all
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var variable = regexp.MustCompile(`LOCKPROXY_[A-Z_]+`)

// Each variable in these files is a setting.
func TestSettingsOfDeploy(t *testing.T) {
	table, seen := page(t, "settings.md"), 0
	err := filepath.WalkDir(folder, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		for _, name := range variable.FindAllString(string(text), -1) {
			seen++
			setting := strings.TrimPrefix(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "lockproxy-")
			if !strings.Contains(table, "\n| `"+setting+"` |") {
				t.Errorf("%s: no setting is called %s", file, name)
			}
		}
		return err
	})
	if err != nil || seen < 4 {
		t.Errorf("%d variables, %v", seen, err)
	}
}
