package commands_test

import (
	"errors"
	"slices"
	"testing"

	"lockproxy/commands"
	"lockproxy/internal/slot"
)

// Servers older than 7.0 do not describe movable keys: ours must be the same.
func TestKeysOfOldServers(t *testing.T) {
	new, old := redis7(t), miniRedis(t)
	for _, line := range calls {
		args := wordsOf(line)
		cmd, _ := old.Resolve(args)
		if _, err := cmd.Slot(args); cmd == old.Unknown() || errors.Is(err, commands.ErrAskKeys) {
			continue
		}
		if got, want := keysOf(old, args), keysOf(new, args); cmd.Keys != nil &&
			!slices.Equal(got, want) {
			t.Errorf("%s: keys %q, Redis 7: %q", line, got, want)
		}
	}
}

func TestSlot(t *testing.T) {
	table := redis7(t)
	for _, test := range []struct {
		line string
		slot int
		err  error
	}{
		{"GET {a}x", slot.Of([]byte("a")), nil},
		{"GET", commands.AnySlot, nil},
		{"PING", commands.AnySlot, nil},
		{"MGET {a}x {a}y", slot.Of([]byte("a")), nil},
		{"MGET a b", commands.AnySlot, commands.ErrCrossSlot},
		{"RENAME a b", commands.AnySlot, commands.ErrCrossSlot},
		{"RENAME a b c", commands.AnySlot, nil}, // the node will say what is wrong with it
		{"MSETNX a 1 b 2", commands.AnySlot, commands.ErrCrossSlot},
		{"EVAL x 2 {a}1 {a}2 b", slot.Of([]byte("a")), nil},
		{"EVAL x 2 a", commands.AnySlot, nil},
		{"EVAL x 0", commands.AnySlot, nil},
		{"SORT a", commands.AnySlot, commands.ErrAskKeys},
		{"SPUBLISH a m", slot.Of([]byte("a")), nil},
		{"OBJECT ENCODING a", slot.Of([]byte("a")), nil},
		{"NOSUCH a", commands.AnySlot, nil},
	} {
		args := wordsOf(test.line)
		cmd, _ := table.Resolve(args)
		got, err := cmd.Slot(args)
		if got != test.slot || !errors.Is(err, test.err) {
			t.Errorf("%s: slot %d, %v; want %d, %v", test.line, got, err, test.slot, test.err)
		}
	}
}

func BenchmarkResolveAndSlot(b *testing.B) {
	table := redis7(b)
	for _, line := range []string{"GET key:000000001234", "SET key:000000001234 xxx", "MGET {user}a {user}b",
		"EVALSHA ffff 1 key:1", "OBJECT ENCODING key:1"} {
		args := wordsOf(line)
		b.Run(string(args[0]), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				cmd, _ := table.Resolve(args)
				cmd.Slot(args)
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	table := redis7(b)
	for _, name := range []string{"GET", "set", "ZRANGEBYSCORE"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for key := []byte(name); b.Loop(); {
				table.Lookup(key)
			}
		})
	}
}

func TestResolveAllocatesNothing(t *testing.T) {
	table := redis7(t)
	for _, line := range []string{"GeT k", "MGET {a}1 {a}2", "CLIENT ID", "EVAL x 1 a"} {
		args := wordsOf(line)
		if n := testing.AllocsPerRun(100, func() {
			cmd, _ := table.Resolve(args)
			cmd.Slot(args)
		}); n > 0 {
			t.Errorf("%s: %v allocations", line, n)
		}
	}
}
