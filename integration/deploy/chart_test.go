package deploy

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"lockproxy/integration/rig"
)

const (
	chart = folder + "/helm/lockproxy"
	// least are the values that the chart wants, as the plain manifest has them.
	least = `
settings: {upstream: "redis-0.redis:6379,redis-1.redis:6379,redis-2.redis:6379"}
passwords: {clients: change-me, upstream: change-me, admin: change-me}
`
)

// helm is the program in testdata/helm, built once: it is a module of its own.
var helm = rig.Shared(func(l rig.Life) string {
	program := filepath.Join(l.TempDir(), "helm")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, ".")
	build.Dir, build.Env = "testdata/helm", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		l.Fatalf("go build in testdata/helm: %s%v", out, err)
	}
	return program
})

func TestMain(m *testing.M) { rig.Main(m) }

// runHelm returns what Helm says of the chart with these values.
func runHelm(t *testing.T, command, values string) (said string, ok bool) {
	t.Helper()
	c := exec.Command(helm(), command, chart, "-")
	c.Stdin = strings.NewReader(values)
	out, err := c.CombinedOutput()
	return string(out), err == nil
}

func template(t *testing.T, values string) string {
	t.Helper()
	said, ok := runHelm(t, "template", values)
	if !ok {
		t.Fatalf("helm template: %s with %s", said, values)
	}
	return said
}

// most are values of everything that is off by default.
const most = least + `
existingSecret: mine
imagePullSecrets: [{name: registry}]
secretFiles: {tls: certificate}
podMonitor: {enabled: true, labels: {release: prometheus}, tlsConfig: {insecureSkipVerify: true}}
serviceMonitor: {enabled: true, labels: {release: prometheus}, tlsConfig: {insecureSkipVerify: true}}
podLabels: {team: a}
podAnnotations: {note: b}
nodeSelector: {disk: ssd}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {}}
priorityClassName: high
service: {annotations: {a: b}}
fullnameOverride: locks
`

func TestChart(t *testing.T) {
	for _, values := range []string{"", least, most} {
		if said, ok := runHelm(t, "lint", values); !ok {
			t.Errorf("helm lint: %s with %s", said, values)
		}
	}
	notes, ok := runHelm(t, "notes", most)
	if !ok || !strings.Contains(notes, "locks.default.svc:6380") || !strings.Contains(notes, "Secret mine") {
		t.Errorf("the notes are %s", notes)
	}
}

// What cannot work is refused before it is in a cluster, and the refusal names it.
func TestChartWithMistakes(t *testing.T) {
	for more, want := range map[string]string{
		"settings: {upstream: ''}":                         "settings.upstream is empty",
		"passwords: {clients: ''}":                         "passwords.clients is empty",
		"passwords: {admin: ''}":                           "passwords.admin is empty",
		"passwords: {admin: \"a\\nrequirepass b\"}":        "/passwords/admin",
		"passwords: {admin: 12}":                           "/passwords/admin",
		"passwords: {client: a}":                           "client",
		"settings: {upstream: 'a:1', requirepass: a}":      "requirepass",
		"settings: {upstream: 'a:1', requirepass-file: a}": "requirepass-file",
		"settings: {upstream: 'a:1', admin-password: a}":   "admin-password",
		"settings: {upstream: 'a:1', listen: '0.0.0.0:1'}": "listen",
		"settings: {upstream: 'a:1', cluster-mode: yes}":   "cluster-mode",
		"replicas: 0":                    "/replicas",
		"replica: 1":                     "replica",
		"networkPolicy: {clients: [{}]}": "/networkPolicy/clients/0",
		"podMonitor: {enabled: true, interval: 15 seconds }": "/podMonitor/interval",
		"serviceMonitor: {enable: true}":                     "enable",
	} {
		said, ok := runHelm(t, "template", overlay(least, more))
		if ok || !strings.Contains(said, want) {
			t.Errorf("%s: %s", more, said)
		}
	}
}

// overlay has the later one of two lines that begin with the same key.
func overlay(values, line string) string {
	key, _, _ := strings.Cut(line, ":")
	kept := slices.DeleteFunc(strings.Split(values, "\n"), func(l string) bool {
		return strings.HasPrefix(l, key+":")
	})
	if key == "passwords" && !strings.Contains(line, "clients") {
		line = strings.Replace(line, "{", "{clients: a, ", 1)
	}
	return strings.Join(append(kept, line), "\n") + "\n"
}

// Without a choice, the chart makes what the plain manifest has.
func TestChartIsThePlainManifest(t *testing.T) {
	all := manifests(t)
	plain, made := objects[any](t, all["plain"]), objects[any](t, all["chart"])
	kinds := slices.Sorted(maps.Keys(plain))
	if !slices.Equal(kinds, slices.Sorted(maps.Keys(made))) {
		t.Fatalf("the plain manifest has %v, the chart %v", kinds, slices.Sorted(maps.Keys(made)))
	}
	for _, kind := range kinds {
		want, got := bare(plain[kind]), bare(made[kind])
		if !reflect.DeepEqual(want, got) {
			wanted, _ := json.MarshalIndent(want, "", " ")
			is, _ := json.MarshalIndent(got, "", " ")
			t.Errorf("%s: the plain manifest has\n%s\nand the chart\n%s", kind, wanted, is)
		}
	}
}

// more is what the chart alone says, besides annotations.
var more = map[string]any{
	"app.kubernetes.io/instance": "lockproxy", "app.kubernetes.io/managed-by": "Helm",
	"app.kubernetes.io/version": "0.1.0", "helm.sh/chart": "lockproxy-0.1.0",
	"imagePullPolicy": "IfNotPresent", "scheme": "HTTP", "type": "ClusterIP",
}

// bare is a manifest without that, and with its settings in order.
func bare(v any) any {
	switch v := v.(type) {
	case map[any]any:
		m := map[string]any{}
		for key, value := range v {
			name := key.(string)
			if said, ok := more[name]; name != "annotations" && (!ok || said != value) {
				m[name] = bare(value)
			}
		}
		return m
	case []any:
		list := []any{}
		for _, e := range v {
			list = append(list, bare(e))
		}
		return list
	case string:
		lines := slices.Sorted(strings.Lines(v))
		return slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#") })
	}
	return v
}

// Values lead to what their comments say.
func TestChartValues(t *testing.T) {
	for _, c := range []struct{ values, has, lacks string }{
		{most, "secretName: mine", "kind: Secret"},
		{most, "mountPath: /etc/secrets/tls", "checksum/settings"},
		{most, "name: locks", "\n  name: lockproxy\n"},
		{least + "networkPolicy: {clients: []}", "ports: [{port: 6390}]", "port: 6380}]"},
		{least + "networkPolicy: {enabled: false}", "kind: Service", "NetworkPolicy"},
		{least + "podDisruptionBudget: {enabled: false}", "kind: Service", "PodDisruptionBudget"},
		{overlay(least, "settings: {upstream: 'a:1', admin-tls-cert: /c}"), "scheme: HTTPS", "scheme: HTTP}"},
		{"settings: {upstream: 'a:1', client-auth: upstream}\npasswords: {admin: a}",
			"client-auth upstream", "\n    requirepass-file "},
		{overlay(least, `passwords: {clients: 'a "b" \c', admin: a}`),
			`  clients-password: "a \"b\" \\c"` + "\n", "sentinel"},
	} {
		text := template(t, c.values)
		if !strings.Contains(text, c.has) {
			t.Errorf("%s: want %q in %s", c.values, c.has, text)
		}
		if strings.Contains(text, c.lacks) {
			t.Errorf("%s: %q is in %s", c.values, c.lacks, text)
		}
	}
}

// Prometheus calls the job as the alerts do, finds the pods, and its password in the Secret.
func TestMonitorsFitTheAlerts(t *testing.T) {
	type spec struct {
		JobLabel string `yaml:"jobLabel"`
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		OfPods, OfService []struct {
			Port      string
			BasicAuth map[string]struct{ Name, Key string } `yaml:"basicAuth"`
		}
	}
	for _, kind := range []string{"PodMonitor", "ServiceMonitor"} {
		value := strings.ToLower(kind[:1]) + kind[1:]
		text := template(t, least+value+": {enabled: true, labels: {release: prometheus}, interval: 1m}")
		text = strings.Replace(text, "podMetricsEndpoints:", "ofpods:", 1)
		text = strings.Replace(text, "endpoints:", "ofservice:", 1)
		all := objects[object](t, text)
		monitor := objects[struct{ Spec spec }](t, text)[kind].Spec
		pod := all["Deployment"].Spec.Template.Metadata.Labels
		found := pod
		if kind == "ServiceMonitor" {
			found = metricsService(t, text, pod)
		}
		for label, value := range monitor.Selector.MatchLabels {
			if found[label] != value {
				t.Errorf("%s: %s is %q, not %q, of %v", kind, label, found[label], value, found)
			}
		}
		job := found[monitor.JobLabel]
		if job == "" || !strings.Contains(read(t, alerts), `job="`+job+`"`) {
			t.Errorf("%s: the job is %q by %s", kind, job, monitor.JobLabel)
		}
		ends := append(monitor.OfPods, monitor.OfService...)
		if len(ends) != 1 || ends[0].Port != "admin" || len(ends[0].BasicAuth) != 2 {
			t.Fatalf("%s: Prometheus asks %v", kind, ends)
		}
		for what, ref := range ends[0].BasicAuth {
			if ref.Name != "lockproxy" || all["Secret"].StringData[ref.Key] == "" {
				t.Errorf("%s: %s: the Secret has no %v", kind, what, ref)
			}
		}
	}
}

// metricsService returns the labels of the Service by which a ServiceMonitor finds pods with these labels.
func metricsService(t *testing.T, text string, pod map[string]string) map[string]string {
	t.Helper()
	for part := range strings.SplitSeq(text, "\n---\n") {
		var s struct {
			Kind     string
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Spec struct {
				ClusterIP string `yaml:"clusterIP"`
				Selector  map[string]string
				Ports     []struct{ Name, TargetPort string }
			}
		}
		if yaml.Unmarshal([]byte(part), &s); s.Kind != "Service" || s.Metadata.Name != "lockproxy-metrics" {
			continue
		}
		if s.Spec.ClusterIP != "None" || len(s.Spec.Ports) != 1 || s.Spec.Ports[0].Name != "admin" {
			t.Errorf("the Service is %+v", s)
		}
		for label, value := range s.Spec.Selector {
			if pod[label] != value {
				t.Errorf("the Service chooses %s: %s, and a pod has %v", label, value, pod)
			}
		}
		return s.Metadata.Labels
	}
	t.Fatalf("no Service lockproxy-metrics in %s", text)
	return nil
}
