//go:build unix

package lock

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// A tool can be killed at any moment, and no command may run then that its watcher does not know. So what is
// started is this program once more, which waits at a gate until the watcher knows its group, and then
// becomes the command.
//
//	tool --one byte--> gate, becomes the command    the watcher knows the group
//	tool, killed       gate, exits                  the pipe broke before
//	tool <--errno---   gate, exits                  it cannot become the command

// Gate is the word behind which this program waits at a gate. No person types it.
const Gate = "lock-gate"

// The ends of both pipes that the gate has. ExtraFiles begin behind the three standard streams.
const opensAt, failsAt = 3, 4

// pipeGate is the tool's end of both pipes. path is the command that the gate becomes, for errors. theirs are
// the ends that the gate has inherited.
type pipeGate struct {
	path         string
	opens, fails *os.File
	theirs       []*os.File
}

// behindGate has cmd wait at a gate once it is started. It changes cmd, and is called before cmd.Start. The
// caller closes the gate in any case.
func behindGate(cmd *exec.Cmd) (*pipeGate, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	waits, opens, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	fails, tells, err := os.Pipe()
	if err != nil {
		waits.Close()
		opens.Close()
		return nil, err
	}
	g := &pipeGate{cmd.Path, opens, fails, []*os.File{waits, tells}}
	cmd.Args = append([]string{cmd.Path, Gate, cmd.Path}, cmd.Args...)
	cmd.Path, cmd.ExtraFiles = program, g.theirs
	return g, nil
}

// started gives up what the other process has now. Otherwise the pipes would not break when the gate exits:
// this process would have their other ends open itself.
func (g *pipeGate) started() {
	for _, f := range g.theirs {
		f.Close()
	}
}

// openGate lets the command run, and returns why it cannot.
func (g *pipeGate) openGate() error {
	// If the gate has gone, reading says so next.
	g.opens.Write([]byte{1})
	text, err := io.ReadAll(g.fails) // until it has become the command
	errno, wrong := strconv.Atoi(string(text))
	switch {
	case err != nil:
		return err
	case len(text) == 0:
		return nil
	case wrong != nil:
		return wrong
	}
	return &fs.PathError{Op: "exec", Path: g.path, Err: syscall.Errno(errno)}
}

// closeGate closes this program's ends. A gate that still waits exits then.
func (g *pipeGate) closeGate() {
	g.opens.Close()
	g.fails.Close()
}

// Pass waits at the gate and becomes the command: its path, and its words from the name on. It returns only
// if that is not to be.
func Pass(args []string) (code int) {
	// exec closes them: so fails ends when the command has begun, and the command does not get them.
	syscall.CloseOnExec(opensAt)
	syscall.CloseOnExec(failsAt)
	// n is 0 when the tool has died
	if n, _ := os.NewFile(opensAt, "gate").Read(make([]byte, 1)); n == 0 || len(args) < 2 {
		return 1
	}
	err := syscall.Exec(args[0], args[1:], os.Environ())
	if errno, ok := err.(syscall.Errno); ok {
		os.NewFile(failsAt, "failure").WriteString(strconv.Itoa(int(errno)))
	}
	return 1
}
