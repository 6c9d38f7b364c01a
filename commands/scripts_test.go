package commands

import (
	"fmt"
	"strings"
	"testing"
)

func TestScripts(t *testing.T) {
	f := newFake(t)
	f.args("EVAL", "return 1", "0")
	f.args("SCRIPT", "LOAD", "return 2")
	f.args("EVAL_RO", "return 3", "1", "k")
	f.server.scripts.Pin([]byte("return 4"))
	shas := map[string]string{ // by sha1sum
		"return 1": "e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
		"return 2": "7f923f79fe76194c868d7e1d0820de36700eb649",
		"return 3": "09d3822de862f46d784e6a36848b4f0736dda47a",
		"return 4": "ff408129b095e878eae274cc5f315244f0b5360f",
	}
	for source, sha := range shas {
		for _, name := range []string{sha, strings.ToUpper(sha)} {
			if got, ok := f.server.scripts.Get([]byte(name)); !ok || string(got) != source {
				t.Errorf("%s: %q, %v", source, got, ok)
			}
		}
	}
	for _, name := range []string{"", "x", strings.Repeat("0", 40), strings.Repeat("0", 41)} {
		if _, ok := f.server.scripts.Get([]byte(name)); ok {
			t.Errorf("%q is known", name)
		}
	}
	// What was flushed does not come back, but for what the proxy itself needs.
	f.do("SCRIPT FLUSH")
	for source, sha := range shas {
		if _, ok := f.server.scripts.Get([]byte(sha)); ok != (source == "return 4") {
			t.Errorf("%s after SCRIPT FLUSH: %v", source, ok)
		}
	}
}

func TestScriptsAreBounded(t *testing.T) {
	s := NewScripts(10)
	for i := range 100 {
		s.Add(fmt.Append(nil, "return ", i))
		s.Add([]byte("return 0")) // used all the time
	}
	if n := s.recent.Len(); n != 10 || len(s.bySHA) != 10 {
		t.Errorf("%d and %d scripts", n, len(s.bySHA))
	}
	used := digest([]byte("return 0"))
	if _, ok := s.Get(used[:]); !ok {
		t.Error("the script in use was forgotten")
	}
	s = NewScripts(1000)
	for i := range 100 {
		s.Add(append(fmt.Append(nil, "--", i, "\n"), make([]byte, maxSource-10)...))
	}
	s.Add(make([]byte, maxSource+1))
	total := 0
	for _, source := range s.bySHA {
		total += len(source)
	}
	if total > maxSources || total < maxSources/2 || total != s.bytes {
		t.Errorf("%d bytes of scripts, counted %d", total, s.bytes)
	}
	s.Flush()
	if s.bytes != 0 || len(s.bySHA) != 0 {
		t.Errorf("%d bytes left", s.bytes)
	}
}

func TestKnownScriptAllocatesNothing(t *testing.T) {
	s := NewScripts(10)
	source := []byte(strings.Repeat("x", 1000))
	s.Add(source)
	if n := testing.AllocsPerRun(100, func() { s.Add(source) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkScriptsAdd(b *testing.B) {
	s := NewScripts(10)
	source := []byte(strings.Repeat("x", 1000))
	b.ReportAllocs()
	for b.Loop() {
		s.Add(source)
	}
}

// Over several masters EVAL goes where its keys are.
func TestEvalByKeys(t *testing.T) {
	f := newFake(t, node("+0\r\n"), node("+1\r\n"))
	for line, want := range map[string]string{
		"EVAL x 1 foo":     "+0\r\n", // slot 12182
		"EVAL x 1 bar":     "+1\r\n", // slot 5061
		"EVAL x 2 foo bar": "-CROSSSLOT Keys in request don't hash to the same slot\r\n",
		"EVAL x 0":         "+0\r\n",
		"EVAL x":           "-ERR wrong number of arguments for 'eval' command\r\n",
	} {
		if got := f.do(line); got != want {
			t.Errorf("%s: %q", line, got)
		}
	}
}
