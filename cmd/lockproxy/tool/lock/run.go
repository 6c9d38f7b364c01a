//go:build unix

package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/client"
	"lockproxy/cmd/lockproxy/tool/terminal"
)

// runLock is one use of the subcommand.
func (o *options) runLock(c *tool.Invocation) int {
	o.name = c.Operands[0]
	if err := o.checkOptions(); err != nil {
		return c.Misused(err)
	}
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	// exec.Command has looked for it in PATH: nobody should wait in a queue for a command that there is not
	if cmd.Err != nil {
		return c.Fail(cannotRun(cmd.Err), cmd.Err)
	}
	// Room for several signals: Notify drops those for which there is none.
	r := &jobRun{Invocation: c, cmd: cmd, signals: make(chan os.Signal, 16)}
	// Before the lock is asked for: a signal in between must give it back.
	r.notifySignals(fatal...)
	defer signal.Stop(r.signals)
	h, code := r.acquireHold(o)
	if h == nil {
		return code
	}
	return r.workUnderHold(h)
}

// fatal are the signals that ask a program to end, and are passed on to the command.
var fatal = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGALRM,
	syscall.SIGUSR1, syscall.SIGUSR2}

// jobRun is one run of a command. One goroutine uses it, that of workUnderHold: signals, the hold and the
// command come to it through channels.
type jobRun struct {
	*tool.Invocation
	cmd     *exec.Cmd
	signals chan os.Signal
}

// notifySignals asks for signals, but for those that whoever started this program wants to be ignored
// (nohup).
func (r *jobRun) notifySignals(all ...os.Signal) {
	for _, sig := range all {
		if !signal.Ignored(sig) {
			signal.Notify(r.signals, sig)
		}
	}
}

// cannotRun is the exit code for a command that does not start, as shells have it.
func cannotRun(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return exitNotFound
	}
	return exitCannotRun
}

// acquireHold takes the lock; a signal ends the attempt. Without a hold, code is the exit code.
func (r *jobRun) acquireHold(o *options) (h *hold, code int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	done := make(chan struct{})
	go func() { // ends with ctx, at the latest
		defer close(done)
		h, err = acquireLock(ctx, o)
	}()
	select {
	case sig := <-r.signals:
		cancel()
		<-done
		// granted at the last moment
		if h != nil {
			h.releaseLock()
		}
		return nil, exitSignalBase + int(sig.(syscall.Signal))
	case <-done:
	}
	switch {
	case err == nil:
		return h, tool.ExitOK
	case errors.Is(err, errHeld) && o.once:
		return nil, tool.ExitOK
	case errors.Is(err, errHeld):
		return nil, r.failWith(tool.ExitTemporary, o.name, err)
	}
	if _, answered := client.Reply(err); answered {
		err = o.proxy.Explain(err)
	}
	return nil, r.failWith(client.Code(err), o.name, err)
}

// failWith tells what went wrong with a lock. A script may have the name from anybody.
func (r *jobRun) failWith(code int, name string, err error) int {
	return r.Fail(code, errors.New(terminal.Safe(name+": "+err.Error())))
}

// workUnderHold runs the command under the hold, and frees that.
func (r *jobRun) workUnderHold(h *hold) int {
	environ := slices.Clone(r.Environ)
	if !h.passEnv { // the job needs the token of its lock, and no login
		environ = slices.DeleteFunc(environ, client.IsPassword)
	}
	r.cmd.Env = append(environ, tokenVariable+"="+h.token,
		fmt.Sprintf("%s=%d", fenceVariable, h.fence))
	// Nothing has run if this fails, so the lock can be freed at once.
	j, err := startJob(r.cmd, h.grace)
	if err != nil {
		h.releaseLock()
		return r.Fail(cannotRun(err), err)
	}
	defer j.closeJob()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	now, sure, lost := make(chan struct{}, 1), make(chan struct{}, 1), make(chan error, 1)
	go func() { lost <- h.watchHold(ctx, now, sure) }() // ends with ctx
	r.notifySignals(syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT)

	resume := false // once the hold is made sure of
	for {
		select {
		case sig := <-r.signals:
			if sig != syscall.SIGCONT {
				j.signalGroup(sig.(syscall.Signal))
				continue
			}
			// The shell continues this program. The command goes on only if the lock is still held, for the
			// lease may have ended meanwhile.
			resume = true
			select {
			case <-sure: // of before
			default:
			}
			poke(now)
		case <-sure:
			if resume {
				j.signalGroup(syscall.SIGCONT)
			}
			resume = false
		case why := <-lost:
			r.failWith(exitLost, h.name, fmt.Errorf("%w; the command is ended", why))
			r.endCommand(j, h.grace)
			h.closeConn()
			return exitLost
		case s := <-j.states:
			if !ended(s) {
				j.handleStop(s.StopSignal())
				continue
			}
			// ends watchHold; its answer says whether the lock was held to the end
			cancel()
			// watchHold has ended by cancel, or had found the lock lost just before.
			if why := <-lost; why != nil {
				h.closeConn()
				return r.failWith(exitLost, h.name, fmt.Errorf("%w, before the command had ended", why))
			}
			return r.freeLock(h, s)
		}
	}
}

// freeLock frees the lock behind a command that has ended with s, and returns the exit code.
func (r *jobRun) freeLock(h *hold, s syscall.WaitStatus) int {
	switch err := h.releaseLock(); {
	case errors.Is(err, errLost):
		return r.failWith(exitLost, h.name, fmt.Errorf("%w, before the command had ended", err))
	case err != nil:
		// told, but the command has done its work: its exit code counts
		r.failWith(0, h.name,
			fmt.Errorf("nobody knows whether the lock is free; it is when its lease is over: %w", err))
	}
	return exitOf(s)
}

// endCommand ends the command, and what it has started in its group.
func (r *jobRun) endCommand(j *job, grace time.Duration) {
	done := make(chan struct{})
	go func() { // ends soon after the grace, at the latest
		defer close(done)
		j.endGroup(grace)
	}()
	for ends := j.states; ends != nil || done != nil; {
		select {
		case s := <-ends:
			if ended(s) {
				ends = nil
			}
		case sig := <-r.signals:
			j.signalGroup(sig.(syscall.Signal))
		case <-done:
			done = nil
		}
	}
}

// ended says that the process has gone, and was not only stopped.
func ended(s syscall.WaitStatus) bool { return s.Exited() || s.Signaled() }

// exitOf is the exit code for how a command has ended, as shells have it.
func exitOf(s syscall.WaitStatus) int {
	if s.Signaled() {
		return exitSignalBase + int(s.Signal())
	}
	return s.ExitStatus()
}
