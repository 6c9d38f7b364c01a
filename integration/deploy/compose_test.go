package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
)

type service struct {
	Environment map[string]string
	Volumes     []string
	Secrets     []string
	Ports       []string
}

// What the services name is there: files, each other, and the hosts under which Prometheus asks.
func TestCompose(t *testing.T) {
	var c struct {
		Services map[string]service
		Secrets  map[string]struct{ File string }
	}
	if err := yaml.Unmarshal([]byte(read(t, "compose/compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	exists := func(file string) {
		if _, err := os.Stat(filepath.Join(folder, "compose", file)); err != nil {
			t.Errorf("compose.yaml: %v", err)
		}
	}
	if !slices.Contains(c.Services["lockproxy1"].Ports, "127.0.0.1:6390:6390") {
		t.Error("the page is not at 127.0.0.1:6390")
	}
	for name, s := range c.Services {
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: %s is for more than this machine", name, port)
			}
		}
		for _, volume := range s.Volumes {
			file, _, _ := strings.Cut(volume, ":")
			exists(file)
		}
		for _, secret := range s.Secrets {
			exists(c.Secrets[secret].File)
		}
		for node := range strings.SplitSeq(s.Environment["LOCKPROXY_UPSTREAM"], ",") {
			host, _, _ := strings.Cut(node, ":")
			if _, ok := c.Services[host]; node != "" && !ok {
				t.Errorf("%s: there is no service %s", name, host)
			}
		}
	}
	var scraped struct {
		Jobs []struct {
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "compose/prometheus.yaml")), &scraped); err != nil {
		t.Fatal(err)
	}
	for _, target := range scraped.Jobs[0].Static[0].Targets {
		host, port, _ := strings.Cut(target, ":")
		settings := c.Services[host].Environment
		if settings["LOCKPROXY_ADMIN_HOSTS"] != host || settings["LOCKPROXY_ADMIN"] != "0.0.0.0:"+port {
			t.Errorf("Prometheus asks %s, whose settings are %v", target, settings)
		}
	}
}

func TestPrometheusOfCompose(t *testing.T) {
	dir := t.TempDir()
	password := filepath.Join(dir, "admin-password")
	write(t, password, read(t, "compose/admin-password"))
	write(t, filepath.Join(dir, "alerts.yaml"), read(t, alerts))
	file := filepath.Join(dir, "prometheus.yaml")
	text := read(t, "compose/prometheus.yaml")
	write(t, file, strings.ReplaceAll(text, "/run/secrets/admin-password", password))
	if said, ok := promtool(t, file, "check", "config"); !ok {
		t.Errorf("promtool check config: %s", said)
	}
}
