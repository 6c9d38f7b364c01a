package commands

import (
	"fmt"
	"strings"
	"testing"
)

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
		s.Add(append(fmt.Append(nil, "--", i, "\n"), make([]byte, MaxSource-10)...))
	}
	s.Add(make([]byte, MaxSource+1))
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
