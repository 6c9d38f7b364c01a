package checkup

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"testing"

	"lockproxy/integration/rig"
)

// ran is a subcommand that has ended.
type ran struct {
	code           int
	stdout, stderr string
}

// run runs lockproxy with args until it ends.
func run(t *testing.T, args ...string) ran {
	t.Helper()
	program := rig.Binary(t) // which may have to be built
	ctx, cancel := context.WithTimeout(context.Background(), 2*rig.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var ended *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
