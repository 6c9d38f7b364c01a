package deploy

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v2"
)

type labels map[string]string

type selector struct {
	MatchLabels labels `yaml:"matchLabels"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// object is what the objects of the manifest must agree about.
type object struct {
	StringData labels `yaml:"stringData"`
	Spec       struct {
		Selector    yaml.MapSlice
		PodSelector selector `yaml:"podSelector"`
		Ports       []struct {
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels labels }
			Spec     struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []struct {
					Image string
					Ports []struct {
						Name          string
						ContainerPort int `yaml:"containerPort"`
					}
					Liveness  probe `yaml:"livenessProbe"`
					Readiness probe `yaml:"readinessProbe"`
				}
			}
		}
	}
}

// manifests are the texts of what has to agree: the plain manifest, and what the chart makes.
func manifests(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"plain": read(t, "kubernetes/lockproxy.yaml"), "chart": manifest(t, least)}
}

// objects returns the objects of a manifest by their kinds.
func objects[T any](t *testing.T, text string) map[string]T {
	t.Helper()
	all := map[string]T{}
	for part := range strings.SplitSeq(strings.TrimPrefix(text, "---\n"), "\n---\n") {
		var kind struct{ Kind string }
		var o T
		err := errors.Join(yaml.Unmarshal([]byte(part), &kind), yaml.Unmarshal([]byte(part), &o))
		if err != nil {
			t.Fatalf("%v in %s", err, part)
		}
		all[kind.Kind] = o
	}
	return all
}

// setting returns what the settings in the Secret say.
func setting(t *testing.T, conf, name string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + ` (.+)$`).FindStringSubmatch(conf)
	if m == nil {
		t.Fatalf("%s is not set", name)
	}
	return m[1]
}

func TestManifestsAgree(t *testing.T) {
	for name, text := range manifests(t) {
		t.Run(name, func(t *testing.T) { testAgree(t, objects[object](t, text)) })
	}
}

func testAgree(t *testing.T, all map[string]object) {
	pod := all["Deployment"].Spec.Template
	if len(pod.Spec.Containers) != 1 {
		t.Fatalf("%d containers", len(pod.Spec.Containers))
	}
	const name = "app.kubernetes.io/name"
	if pod.Metadata.Labels[name] != "lockproxy" {
		t.Errorf("the pods have the labels %v", pod.Metadata.Labels)
	}
	for _, kind := range []string{"Deployment", "Service", "PodDisruptionBudget"} {
		text, err := yaml.Marshal(all[kind].Spec.Selector)
		if err != nil || !strings.Contains(string(text), name+": lockproxy\n") {
			t.Errorf("%s selects %s, %v", kind, text, err)
		}
	}
	if got := all["NetworkPolicy"].Spec.PodSelector.MatchLabels[name]; got != "lockproxy" {
		t.Errorf("NetworkPolicy selects %s", got)
	}

	version := regexp.MustCompile(`(?m)^ARG VERSION=(.+)$`).FindStringSubmatch(page(t, "../Dockerfile"))
	c, conf := pod.Spec.Containers[0], all["Secret"].StringData["lockproxy.conf"]
	if version == nil || !strings.HasSuffix(c.Image, "/lockproxy:"+version[1]) {
		t.Errorf("the image is %s, the Dockerfile makes %q", c.Image, version)
	}
	ports := map[string]string{}
	for _, p := range c.Ports {
		ports[p.Name] = "0.0.0.0:" + strconv.Itoa(p.ContainerPort)
	}
	target := all["Service"].Spec.Ports[0].TargetPort
	if ports[target] != setting(t, conf, "listen") {
		t.Errorf("the Service leads to %s, %s", target, ports[target])
	}
	for _, p := range []struct {
		probe
		path string
	}{{c.Liveness, "/healthz"}, {c.Readiness, "/readyz"}} {
		if p.HTTPGet.Path != p.path || ports[p.HTTPGet.Port] != setting(t, conf, "admin") {
			t.Errorf("a probe asks %v, want %s", p.HTTPGet, p.path)
		}
	}
}

// Each line of the settings is one of lockproxy's, and the files that they name are in the Secret.
func TestManifestSettings(t *testing.T) {
	for name, text := range manifests(t) {
		t.Run(name, func(t *testing.T) { testSettings(t, objects[object](t, text)) })
	}
}

func testSettings(t *testing.T, all map[string]object) {
	secret, table := all["Secret"].StringData, page(t, "settings.md")
	for line := range strings.Lines(secret["lockproxy.conf"]) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "#" {
			continue
		}
		if !strings.Contains(table, "\n| `"+name+"` |") {
			t.Errorf("no setting is called %s", name)
		}
		if file, ok := strings.CutPrefix(value, "/etc/lockproxy/"); ok && secret[file] == "" {
			t.Errorf("%s: the Secret has no %s", name, file)
		}
	}
	sum := time.Duration(0)
	for _, name := range []string{"drain-delay", "drain-timeout"} {
		d, err := time.ParseDuration(setting(t, secret["lockproxy.conf"], name))
		if err != nil {
			t.Error(err)
		}
		sum += d
	}
	if grace := all["Deployment"].Spec.Template.Spec.Grace; time.Duration(grace)*time.Second <= sum {
		t.Errorf("a pod is killed after %d s, but draining takes %v", grace, sum)
	}
}
