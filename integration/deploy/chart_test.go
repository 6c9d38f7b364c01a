package deploy

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
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

func TestMain(m *testing.M) { rig.Main(m) }

func manifest(t *testing.T, values string) string {
	t.Helper()
	made, err := render(values)
	if err != nil {
		t.Fatalf("%v with %s", err, values)
	}
	return made.manifests
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

// What the chart makes are objects of Kubernetes, each once, and it says who it is.
func TestChart(t *testing.T) {
	for _, values := range []string{least, most} {
		seen := map[string]bool{}
		for part := range strings.SplitSeq(strings.TrimPrefix(manifest(t, values), "---\n"), "\n---\n") {
			var o struct {
				APIVersion string `yaml:"apiVersion"`
				Kind       string
				Metadata   struct{ Name string }
			}
			if err := yaml.UnmarshalStrict([]byte(part), &map[string]any{}); err != nil {
				t.Errorf("%v in %s", err, part)
			}
			yaml.Unmarshal([]byte(part), &o)
			id := o.Kind + " " + o.Metadata.Name
			if !named.MatchString(o.Metadata.Name) || o.APIVersion == "" || o.Kind == "" || seen[id] {
				t.Errorf("%s %q is no object of Kubernetes, or there twice: %s", o.APIVersion, id, part)
			}
			seen[id] = true
		}
	}
	made, err := render(most)
	if err != nil || !strings.Contains(made.notes, "locks.default.svc:6380") ||
		!strings.Contains(made.notes, "Secret mine") {
		t.Errorf("the notes are %s, %v", made.notes, err)
	}
}

// named is what an object may be called.
var named = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// mistakes are values in the place of others of least, each with what its refusal names.
var mistakes = map[string]string{
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
}

// What cannot work is refused before it is in a cluster, and the refusal names it.
func TestChartWithMistakes(t *testing.T) {
	for more, want := range mistakes {
		if _, err := render(overlay(least, more)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", more, err)
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

// choices are values, each with what it leads to and what it ends.
var choices = []struct{ values, has, lacks string }{
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
}

// Values lead to what their comments say.
func TestChartValues(t *testing.T) {
	for _, c := range choices {
		text := manifest(t, c.values)
		if !strings.Contains(text, c.has) {
			t.Errorf("%s: want %q in %s", c.values, c.has, text)
		}
		if strings.Contains(text, c.lacks) {
			t.Errorf("%s: %q is in %s", c.values, c.lacks, text)
		}
	}
}

// monitored is what stands behind the name of a monitor.
const monitored = ": {enabled: true, labels: {release: prometheus}, interval: 1m}"

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
		text := manifest(t, least+value+monitored)
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
