package script

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"lockproxy/internal/resp"
)

// A call of a script that the node is known to have costs no memory.
func TestKnownScriptsCostNothing(t *testing.T) {
	k := NewInventory(func([]byte) ([]byte, bool) { return []byte("return 1"), true }, nil)
	call := resp.AppendCommandStrings(nil, "EVALSHA", strings.Repeat("Ab", 20), "1", "k")
	missing := func() bool {
		_, source := k.Missing("a:1", call, nil, time.Time{})
		return source != nil
	}
	k.Given("a:1", strings.Repeat("ab", 20))
	if n := testing.AllocsPerRun(100, func() { missing() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if missing() {
		t.Error("it is loaded again")
	}
	call = resp.AppendCommandStrings(nil, "EVALSHA", strings.Repeat("ab", 20), "1", "k")
	for range 2 {
		if missing() {
			t.Error("it is loaded again")
		}
	}
	if !k.ranLately("a:1", call) || k.ranLately("b:1", call) {
		t.Error("it is not known as one that ran there")
	}
	k.Lost("a:1", call)
	if !missing() {
		t.Error("it is not loaded at a node that has lost it")
	}
}

// In one round no more is loaded than a loop has time for.
func TestRoundOfScripts(t *testing.T) {
	large := func([]byte) ([]byte, bool) { return bytes.Repeat([]byte("-"), maxLoaded*2/3), true }
	k := NewInventory(large, nil)
	now, n := time.Unix(1, 0), 0
	for ; !k.RoundIsFull(now); n++ {
		k.Source("ab")
	}
	if n != 2 || k.RoundIsFull(now.Add(1)) {
		t.Errorf("%d scripts were loaded, or the next round is full already", n)
	}
}
