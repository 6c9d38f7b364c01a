package tool

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"lockproxy/integration/rig"
)

// No command runs that its watcher does not know: it waits at a gate, and a tool that is killed before it
// opens that has started nothing. R18
func TestLockIsKilledBeforeItsCommandRuns(t *testing.T) {
	t.Parallel()
	file := rig.WriteFile(t, "file", "") // which is no program
	for _, test := range []struct {
		opened bool
		words  []string // a path, and a command with its name
		says   string
		errno  syscall.Errno
	}{
		{true, []string{"/bin/sh", "sh", "-c", `echo "ran $1" $(ls /dev/fd/3 /dev/fd/4 2>&1 | grep -c "^/")`,
			"sh", "a b"}, "ran a b 0\n", 0},
		{false, []string{"/bin/sh", "sh", "-c", "echo ran"}, "", 0},
		{true, []string{file, "file"}, "", syscall.EACCES},
		{true, []string{"/no/such/file", "file"}, "", syscall.ENOENT},
	} {
		cmd := exec.Command(rig.Binary(t), append([]string{"lock-gate"}, test.words...)...)
		waits, opens, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fails, tells, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.ExtraFiles = []*os.File{waits, tells}
		p := rig.StartCommand(t, cmd)
		waits.Close()
		tells.Close()
		if test.opened {
			opens.Write([]byte{1})
		}
		opens.Close()
		why, err := io.ReadAll(fails)
		if errno, _ := strconv.Atoi(string(why)); err != nil || syscall.Errno(errno) != test.errno {
			t.Errorf("%q: it says %q, want %v", test.words, why, test.errno)
		}
		code := p.Wait(rig.Patience)
		if said := p.Log.String(); said != test.says || (code == 0) != strings.HasPrefix(said, "ran") {
			t.Errorf("%q: code %d, it says %q", test.words, code, said)
		}
	}
}
