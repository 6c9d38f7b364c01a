package commands_test

import (
	"strings"
	"testing"

	"lockproxy/internal/slot"
)

func TestScripts(t *testing.T) {
	f := newSession(t)
	f.Args("EVAL", "return 1", "0")
	f.Args("SCRIPT", "LOAD", "return 2")
	f.Args("EVAL_RO", "return 3", "1", "k")
	f.Server.Store.Pin([]byte("return 4"))
	shas := map[string]string{ // by sha1sum
		"return 1": "e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
		"return 2": "7f923f79fe76194c868d7e1d0820de36700eb649",
		"return 3": "09d3822de862f46d784e6a36848b4f0736dda47a",
		"return 4": "ff408129b095e878eae274cc5f315244f0b5360f",
	}
	for source, sha := range shas {
		for _, name := range []string{sha, strings.ToUpper(sha)} {
			if got, ok := f.Server.Store.Get([]byte(name)); !ok || string(got) != source {
				t.Errorf("%s: %q, %v", source, got, ok)
			}
		}
	}
	for _, name := range []string{"", "x", strings.Repeat("0", 40), strings.Repeat("0", 41)} {
		if _, ok := f.Server.Store.Get([]byte(name)); ok {
			t.Errorf("%q is known", name)
		}
	}
	// What was flushed does not come back, but for what the proxy itself needs.
	f.Do("SCRIPT FLUSH")
	for source, sha := range shas {
		if _, ok := f.Server.Store.Get([]byte(sha)); ok != (source == "return 4") {
			t.Errorf("%s after SCRIPT FLUSH: %v", source, ok)
		}
	}
}

// Over several masters EVAL goes where its keys are.
func TestEvalByKeys(t *testing.T) {
	f := newSession(t, saying("+0\r\n"), saying("+1\r\n"))
	for line, want := range map[string]string{
		"EVAL x 1 foo":     "+0\r\n", // slot 12182
		"EVAL x 1 bar":     "+1\r\n", // slot 5061
		"EVAL x 2 foo bar": "-CROSSSLOT Keys in request don't hash to the same slot\r\n",
		"EVAL x 0":         "+0\r\n",
		"EVAL x":           "-ERR wrong number of arguments for 'eval' command\r\n",
	} {
		if got := f.Do(line); got != want {
			t.Errorf("%s: %q", line, got)
		}
	}
}

func TestFunctionLoad(t *testing.T) {
	f := newSession(t, saying("$1\r\nl\r\n"), saying("$1\r\nl\r\n"))
	if got := f.Do("FUNCTION LOAD #!lua"); got != "$1\r\nl\r\n" {
		t.Errorf("%q", got)
	}
	f = newSession(t, saying("$1\r\nl\r\n"), saying("-ERR no\r\n"))
	got := f.Do("FUNCTION LOAD REPLACE redis.register_function('f',redis.call('get','foo'))")
	if got != "-ERR no\r\n" {
		t.Errorf("%q", got)
	}
	args := wordsOf("FCALL f 0")
	if got := f.Table.Lookup(args[0]).Home(args, f.Table, f.Server.Store); got != slot.Of([]byte("foo")) {
		t.Errorf("slot %d", got)
	}
}
