// Package tool tests the subcommands of lockproxy as processes, against real proxies.
package tool

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// start starts lockproxy with these words, against that proxy.
func start(t *testing.T, proxy string, words ...string) *rig.Process {
	t.Helper()
	cmd := exec.Command(rig.Binary(t), words...)
	cmd.Env = append(os.Environ(), "LOCKPROXY_PROXY="+proxy)
	return rig.StartCommand(t, cmd)
}

// run is start for what ends by itself: its exit code and what it wrote.
func run(t *testing.T, proxy string, words ...string) (code int, said string) {
	t.Helper()
	p := start(t, proxy, words...)
	code = p.Wait(rig.Patience)
	return code, p.Log.String()
}

// says waits until p has written text.
func says(t *testing.T, p *rig.Process, text string) {
	t.Helper()
	rig.Eventually(t, rig.Patience, text+" in its output", func() bool {
		return strings.Contains(p.Log.String(), text)
	})
}
