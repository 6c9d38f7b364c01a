//go:build unix

package lock

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// A tool that is killed (KILL) can end nothing any more. So a second process of this program watches it: a
// pipe leads from the tool to the watcher, and breaks when the tool dies. Then the watcher ends the group of
// the command.
//
//	tool --"4711"--> watcher           the group has started
//	tool --"done"--> watcher, exits    or nothing more is said: TERM, and KILL after the grace

// Watcher is the word behind which this program is a watcher. No person types it.
const Watcher = "lock-watcher"

// no number, so it is never taken for a group
const wordDone = "done"

// watcher is the tool's end of the pipe.
type watcher struct{ pipe *os.File }

// startWatcher starts a watcher, which gives the group so long between TERM and KILL.
func startWatcher(grace time.Duration) (*watcher, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.Command(program, Watcher, grace.String())
	// It keeps no folder busy, and knows no password.
	cmd.Stdin, cmd.Dir, cmd.Env = theirs, "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal sends it signals
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("a second process of this program does not start: %w", err)
	}
	go cmd.Wait() // ends with the watcher
	return &watcher{ours}, nil
}

// watchGroup names the group to be ended if this process dies.
func (w *watcher) watchGroup(group int) { fmt.Fprintln(w.pipe, group) }

// dismiss says that the group is left as it is from now on.
func (w *watcher) dismiss() {
	fmt.Fprintln(w.pipe, wordDone)
	w.pipe.Close()
}

// Watch is the life of a watcher: it reads from what its tool says.
func Watch(args []string, from io.Reader) (code int) {
	// It is not in the group of the tool or the command, but somebody may signal all processes of a user.
	// Only the tool's death counts.
	signal.Ignore(fatal...)
	// as the tool itself would, if no grace came through
	group, grace := 0, mostGrace
	if len(args) > 0 {
		grace, _ = time.ParseDuration(args[0])
	}
	for lines := bufio.NewScanner(from); lines.Scan(); {
		if line := strings.TrimSpace(lines.Text()); line == wordDone {
			return 0
		} else if _, err := fmt.Sscan(line, &group); err != nil {
			return 1
		}
	}
	// -1 and 0 would signal every process, or this one's own group
	if group <= 1 { // the command has not started
		return 0
	}
	(&job{group: group}).endGroup(grace)
	return 0
}
