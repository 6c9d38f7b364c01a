package tool

import (
	"testing"

	"lockproxy/integration/rig"
)

// The command has the keyboard, ends with ^C, and can be stopped, seen in the background and continued, as if
// there were no lockproxy lock before it.
func TestLockAtATerminal(t *testing.T) {
	t.Parallel()
	dev := rig.StartProxy(t, "--dev")
	s := openScreen(t, dev.Addr, "bash", "--norc", "--noprofile", "--noediting", "-i")
	c := rig.Connect(t, dev.Addr)
	free := func(want bool) {
		t.Helper()
		if is := c.Must(t, "LOCKCTL", "INFO", "job").Field("state").Text == "free"; is != want {
			t.Errorf("the lock is free: %v", is)
		}
	}

	// It reads what is typed, and changes the modes of the terminal.
	s.types(t, `"$lockproxy" lock job -- sh -c 'stty -echo; echo one$((1+1)); read x; stty echo; `+
		`echo "got <$x>"'`+"\n", "one2")
	s.types(t, "some words\n", "got <some words>")
	s.idle(t)
	s.types(t, "echo code=$?\n", "code=0")
	s.idle(t)
	free(true)

	// ^C is for the command, whether or not it has asked for the terminal before.
	s.types(t, `"$lockproxy" lock job -- sh -c 'trap "echo int$((1+1)); exit 9" INT; echo up$((1+1)); `+
		`while :; do sleep 0.02; done'`+"\n", "up2")
	s.types(t, "\x03", "int2")
	s.idle(t)
	s.types(t, "echo code=$?\n", "code=9")
	s.idle(t)
	s.types(t, `"$lockproxy" lock job -- cat`+"\nfirst line\n", "first line\r\nfirst line")
	free(false)
	s.types(t, "\x03", "^C")
	s.idle(t)
	s.types(t, "echo code=$?\n", "code=130")
	s.idle(t)
	free(true)

	// ^Z stops it, with the lock; fg goes on.
	s.types(t, `"$lockproxy" lock job -- cat`+"\nfirst line\n", "first line\r\nfirst line")
	s.types(t, "\x1a", "Stopped")
	s.idle(t)
	free(false)
	s.types(t, "echo shell$((1+1))\n", "shell2")
	s.idle(t)
	s.types(t, "fg\n", "lock job -- cat")
	s.types(t, "second line\n", "second line\r\nsecond line")
	s.types(t, "\x1a", "Stopped")
	s.idle(t)
	s.types(t, "bg\n", "&")
	s.types(t, "wait %1; echo stopped$((1+1))\n", "stopped2") // for in the background cat may not read
	free(false)
	s.types(t, "fg\n", "lock job -- cat")
	s.types(t, "third\n", "third\r\nthird")
	s.types(t, "\x04", "$ ")
	s.idle(t)
	s.types(t, "echo code=$?\n", "code=0")
	s.idle(t)
	free(true)

	// Others of a pipeline have the terminal, if the command does not ask for it.
	s.types(t, `"$lockproxy" lock job -- echo piped$((1+1)) | (cat; read x </dev/tty; echo "got <$x>")`+"\n",
		"piped2")
	s.types(t, "more words\n", "got <more words>")
	free(true)
}
