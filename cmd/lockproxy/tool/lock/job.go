//go:build unix

package lock

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lockproxy/cmd/lockproxy/tool"
)

// job is the command while it runs, in a process group of its own, so that it can be ended with all that it
// has started.
//
// A shell knows only the group of this program. So the group of the command has the terminal on loan: it
// gets it when it asks (it reads, or changes modes, and the kernel stops it: TTIN, TTOU) and this program's
// group has it. When the command is stopped otherwise (^Z) the loan ends, and this program's group stops as
// well, for the shell to see. The shell continues this program, which continues the command.
//
// A command that does not ask leaves the terminal with this group, in which others may use it: lockproxy
// lock ... | less.
type job struct {
	cmd     *exec.Cmd
	watcher *watcher
	group   int
	tty     *os.File                // nil: there is none
	states  chan syscall.WaitStatus // each stop, and the end
}

// startJob starts the command on the standard streams of this process. If this process is killed, the group
// of the command gets TERM, and KILL after the grace.
func startJob(cmd *exec.Cmd, grace time.Duration) (*job, error) {
	w, err := startWatcher(grace)
	if err != nil {
		return nil, err
	}
	// Without room: a stop is handled before the next one is waited for.
	j := &job{cmd: cmd, watcher: w, states: make(chan syscall.WaitStatus)}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g, err := behindGate(cmd)
	if err != nil {
		w.dismiss()
		return nil, err
	}
	defer g.closeGate()
	err = cmd.Start()
	g.started()
	if err != nil {
		w.dismiss()
		return nil, err
	}
	j.group = cmd.Process.Pid
	// Before the gate opens: from the first instruction of the command on its group is known to the watcher.
	w.watchGroup(j.group)
	if err := g.openGate(); err != nil {
		cmd.Wait()
		w.dismiss()
		return nil, err
	}
	go j.attendCommand() // ends with the command
	j.tty, _ = os.OpenFile("/dev/tty", os.O_RDWR, 0)
	// Taking the terminal back is done from the background, where it would stop this program. The command is
	// started already and has not inherited this.
	signal.Ignore(syscall.SIGTTOU)
	return j, nil
}

// attendCommand reports the stops of the command, and its end.
func (j *job) attendCommand() {
	for {
		var s syscall.WaitStatus
		// Not cmd.Wait, which does not tell of stops.
		_, waitErr := syscall.Wait4(j.cmd.Process.Pid, &s, syscall.WUNTRACED, nil)
		if waitErr == syscall.EINTR {
			continue
		}
		if waitErr != nil {
			s = syscall.WaitStatus(tool.ExitSoftware << 8) // nobody will ever know
		}
		j.states <- s
		if waitErr != nil || ended(s) {
			return
		}
	}
}

// signalGroup sends sig to the group of the command.
func (j *job) signalGroup(sig syscall.Signal) { syscall.Kill(-j.group, sig) }

// lookAgain is how often a group is looked at that is to end.
const lookAgain = 20 * time.Millisecond

// endGroup ends the group: TERM, and after the grace KILL. It blocks until nobody is left, or all are killed.
func (j *job) endGroup(grace time.Duration) {
	j.signalGroup(syscall.SIGTERM)
	j.signalGroup(syscall.SIGCONT) // a stopped process does not end
	for over := time.Now().Add(grace); j.alive(); time.Sleep(lookAgain) {
		if time.Now().After(over) {
			j.signalGroup(syscall.SIGKILL)
			return
		}
	}
}

// alive says that there are processes in the group, be it of another user.
func (j *job) alive() bool { return syscall.Kill(-j.group, 0) != syscall.ESRCH }

// handleStop does what is to be done when the command was stopped by sig.
func (j *job) handleStop(sig syscall.Signal) {
	asks := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	switch {
	case sig == syscall.SIGSTOP: // somebody wants just this
	case asks && (j.hasTerminal(j.group) || j.hasTerminal(own()) && j.giveTerminal(j.group)):
		j.signalGroup(syscall.SIGCONT)
	case !orphaned():
		j.takeTerminalBack()
		syscall.Kill(0, syscall.SIGSTOP) // with all of the pipeline, or the shell would wait for the others
	case asks: // and nobody could ever give it the terminal
		j.signalGroup(syscall.SIGHUP)
		j.signalGroup(syscall.SIGCONT)
	default: // nobody could continue it
		j.signalGroup(syscall.SIGCONT)
	}
}

// closeJob takes the terminal back, and leaves alone what still runs in the group.
func (j *job) closeJob() {
	j.watcher.dismiss()
	j.takeTerminalBack()
	if j.tty != nil {
		j.tty.Close()
	}
}

// takeTerminalBack ends the loan, if there is one.
func (j *job) takeTerminalBack() {
	if j.hasTerminal(j.group) {
		j.giveTerminal(own())
	}
}

// hasTerminal says that the terminal is the group's.
func (j *job) hasTerminal(group int) bool {
	if j.tty == nil {
		return false
	}
	foreground, err := unix.IoctlGetInt(int(j.tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == group
}

// giveTerminal makes the terminal the group's.
func (j *job) giveTerminal(group int) bool {
	return unix.IoctlSetPointerInt(int(j.tty.Fd()), unix.TIOCSPGRP, group) == nil
}

// own is the process group of this program.
func own() int { return unix.Getpgrp() }

// orphaned says that no shell watches this program's group: its parent is in another session, or in the
// group.
func orphaned() bool {
	parent := os.Getppid()
	group, err := unix.Getpgid(parent)
	session, sessionErr := unix.Getsid(parent)
	mine, mineErr := unix.Getsid(0)
	return err != nil || sessionErr != nil || mineErr != nil || group == own() || session != mine
}
