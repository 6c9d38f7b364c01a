// Package tool tests the subcommands of lockproxy as processes, as people run them: against real proxies, and
// check against servers in good and in bad states.
package tool

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// patience is how long subcommands wait for answers: the machine may be busy.
const patience = "1m"

func TestMain(m *testing.M) {
	os.Setenv("LOCKPROXY_CONNECT_TIMEOUT", patience)
	rig.Main(m)
}

// start starts lockproxy with these words, against that proxy.
func start(t *testing.T, proxy string, words ...string) *rig.Process {
	t.Helper()
	cmd := exec.Command(rig.Binary(t), words...)
	cmd.Env = append(os.Environ(), "LOCKPROXY_PROXY="+proxy)
	return rig.StartCommand(t, cmd)
}

// told is start for what ends by itself: its exit code and what it wrote.
func told(t *testing.T, proxy string, words ...string) (code int, said string) {
	t.Helper()
	p := start(t, proxy, words...)
	code = p.Wait(rig.Patience)
	return code, p.Log.String()
}

// ran is a subcommand that has ended.
type ran struct {
	code           int
	stdout, stderr string
}

// run runs lockproxy with these words until it ends.
func run(t *testing.T, words ...string) ran {
	t.Helper()
	program := rig.Binary(t) // which may have to be built
	ctx, cancel := context.WithTimeout(context.Background(), rig.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, words...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var ended *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// says waits until p has written text.
func says(t *testing.T, p *rig.Process, text string) {
	t.Helper()
	rig.Eventually(t, rig.Patience, text+" in its output", func() bool {
		return strings.Contains(p.Log.String(), text)
	})
}
