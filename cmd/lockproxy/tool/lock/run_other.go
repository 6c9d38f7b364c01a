//go:build !unix

package lock

import (
	"errors"
	"io"

	"lockproxy/cmd/lockproxy/tool"
)

// runLock refuses: without process groups and signals a command could not be ended.
func (o *options) runLock(c *tool.Invocation) int {
	return c.Fail(tool.ExitSoftware, errors.New("this system has no process groups as Unix has them"))
}

// Watcher is the word behind which this program is a watcher.
const Watcher = "lock-watcher"

// Watch does nothing: no lock tool can have started it.
func Watch([]string, io.Reader) (code int) { return tool.ExitSoftware }

// Gate is the word behind which this program waits at a gate.
const Gate = "lock-gate"

// Pass does nothing: no lock tool can have started it.
func Pass([]string) (code int) { return tool.ExitSoftware }
