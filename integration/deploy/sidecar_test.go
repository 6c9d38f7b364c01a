package deploy

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
)

type command struct {
	Exec struct{ Command []string }
}

// The sidecar is one, asks itself how it is, and is the image that the sources make; the program beside it
// connects to where it listens.
func TestSidecar(t *testing.T) {
	text := read(t, "kubernetes/sidecar.yaml")
	type variable struct{ Name, Value string }
	var pod struct {
		Spec struct {
			Sidecars []struct {
				Image    string
				Restart  string `yaml:"restartPolicy"`
				Env      []variable
				Startup  command `yaml:"startupProbe"`
				Liveness command `yaml:"livenessProbe"`
			} `yaml:"initContainers"`
			Containers []struct{ Env []variable }
			Volumes    []struct {
				Secret struct {
					Name string `yaml:"secretName"`
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &pod); err != nil {
		t.Fatal(err)
	}
	s := pod.Spec.Sidecars[0]
	image := read(t, "kubernetes/lockproxy.yaml")
	if s.Restart != "Always" || !strings.Contains(image, "image: "+s.Image+"\n") {
		t.Errorf("restartPolicy %s, image %s", s.Restart, s.Image)
	}
	if got := append(s.Startup.Exec.Command, s.Liveness.Exec.Command...); !slices.Equal(got,
		[]string{"/lockproxy", "ready", "/lockproxy", "health"}) {
		t.Errorf("the probes run %q", got)
	}
	listen := ""
	for _, v := range s.Env {
		switch v.Name {
		case "LOCKPROXY_LISTEN":
			listen = v.Value
		case "LOCKPROXY_UPSTREAM_PASSWORD_FILE":
			_, key, _ := strings.Cut(v.Value, "/etc/lockproxy/")
			if made := pod.Spec.Volumes[0].Secret.Name + " --from-literal=" + key + "="; key == "" ||
				!strings.Contains(text, made) {
				t.Errorf("nothing makes the Secret with %s", v.Value)
			}
		}
	}
	if url := pod.Spec.Containers[0].Env[0].Value; listen == "" || url != "redis://"+listen {
		t.Errorf("the program connects to %s, lockproxy listens on %s", url, listen)
	}
}
