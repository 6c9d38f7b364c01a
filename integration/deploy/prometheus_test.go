package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// startPrometheus starts one that asks the proxy for its metrics each second, and returns its URL.
func startPrometheus(t *testing.T, p *rig.Proxy) string {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("%v: integration/install.sh installs it", err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yaml")
	write(t, config, fmt.Sprintf(`global: {scrape_interval: 1s}
rule_files: [%s]
scrape_configs:
  - job_name: lockproxy
    static_configs: [{targets: [%q]}]
`, must(filepath.Abs(filepath.Join(folder, alerts))), strings.TrimPrefix(p.Admin, "http://")))
	addr := fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	rig.StartProcess(t, program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr)
	return "http://" + addr
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var errNotYet = errors.New("Prometheus does not serve yet")

// ask is a query of Prometheus now: how many series it has, or what is wrong with it.
func ask(at, query string) (series int, err error) {
	r, err := http.Get(at + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return 0, errNotYet
	}
	defer r.Body.Close()
	if r.StatusCode == http.StatusServiceUnavailable {
		return 0, errNotYet
	}
	var answer struct {
		Status, Error string
		Data          struct{ Result []struct{} }
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return len(answer.Data.Result), nil
}

// silent are panels that have nothing to show while nothing is wrong, and why.
var silent = map[string]string{
	"Masters of RedLock that vote": "this proxy has none",
}

// A real Prometheus that asks a real proxy has something to show in each panel, and evaluates each alert.
func TestDashboardOverPrometheus(t *testing.T) {
	p := rig.StartProxy(t, "--upstream", rig.StartRedis(t).Addr)
	prometheus := startPrometheus(t, p)
	c, other := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	work := func() {
		c.Must(t, "SET", "k", "v")
		c.Call(t, "GET")
		c.Must(t, "LOCK", "job", "TOKEN", "a", "KEEPALIVE")
		other.Send("LOCK", "job", "TOKEN", "b", "WAIT", "60000")
		rig.WaitersOf(t, p.Addr, "job", 1)
		c.Must(t, "UNLOCK", "job", "a")
		if v, err := other.Receive(rig.Patience); err != nil || v.Null {
			t.Fatalf("%s, %v", v, err)
		}
		other.Must(t, "UNLOCK", "job", "b")
	}
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "grafana/lockproxy.json")), &d); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$__rate_interval", "30s", "$job", "lockproxy", "$instance", ".*")
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			query := fill.Replace(target.Expr)
			rig.Eventually(t, rig.Patience, "something to show in "+panel.Title, func() bool {
				work()
				series, err := ask(prometheus, query)
				if err != nil && err != errNotYet {
					t.Fatalf("%s: %s: %v", panel.Title, query, err)
				}
				return err == nil && (series > 0) != (silent[panel.Title] != "")
			})
		}
	}

	var rules struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, State, LastError string }
			}
		}
	}
	rig.Eventually(t, rig.Patience, "each alert is evaluated", func() bool {
		r, err := http.Get(prometheus + "/api/v1/rules")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if err := json.NewDecoder(r.Body).Decode(&rules); err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, g := range rules.Data.Groups {
			for _, rule := range g.Rules {
				if rule.Health == "err" || rule.State == "firing" {
					t.Fatalf("%s: %s %s %s", rule.Name, rule.Health, rule.State, rule.LastError)
				}
				if rule.Health == "ok" {
					seen++
				}
			}
		}
		return seen >= strings.Count(read(t, alerts), "- alert: ")
	})
}
