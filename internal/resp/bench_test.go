package resp

import (
	"testing"

	"github.com/tidwall/redcon"
)

var benchCommands = map[string]string{
	"SET":    "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000042\r\n$3\r\nxxx\r\n",
	"GET":    "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n",
	"inline": "SET key:000000000042 xxx\r\n",
}

func BenchmarkGuardSplit(b *testing.B) {
	for name, text := range benchCommands {
		b.Run(name, func(b *testing.B) {
			cmd, lim := []byte(text), &defaults
			var g InputGuard
			var args [][]byte
			b.ReportAllocs()
			for b.Loop() {
				n, err := g.Next(cmd, lim)
				if n != len(cmd) || err != nil {
					b.Fatal(n, err)
				}
				if args, _, err = Split(cmd[:n], args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGuard(b *testing.B) {
	for name, text := range benchCommands {
		b.Run(name, func(b *testing.B) {
			cmd, lim := []byte(text), &defaults
			var g InputGuard
			b.ReportAllocs()
			for b.Loop() {
				if n, err := g.Next(cmd, lim); n != len(cmd) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkRedcon is the yardstick: what the parser takes without a guard.
func BenchmarkRedcon(b *testing.B) {
	cmd := []byte(benchCommands["SET"])
	var args [][]byte
	for b.Loop() {
		_, args, _, _, _ = redcon.ReadNextCommand(cmd, args)
	}
}

// BenchmarkGuardDripped feeds 1 MiB in pieces of one byte.
func BenchmarkGuardDripped(b *testing.B) {
	cmd := AppendCommandStrings(nil, "SET", "key", string(make([]byte, 1<<20)))
	var g InputGuard
	for b.Loop() {
		for i := range cmd {
			if _, err := g.Next(cmd[:i+1], &defaults); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkFramer(b *testing.B) {
	for name, text := range map[string]string{
		"bulk":    "$3\r\nbar\r\n",
		"status":  "+OK\r\n",
		"integer": ":1\r\n",
		"null":    "$-1\r\n",
		"bulk100": "$100\r\n" + string(make([]byte, 100)) + "\r\n",
		"array":   "*3\r\n$3\r\nabc\r\n$16\r\nkey:000000000042\r\n:12\r\n",
		"error":   "-MOVED 3999 127.0.0.1:6381\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			reply := []byte(text)
			var f Framer
			b.ReportAllocs()
			for b.Loop() {
				if n, done, err := f.Next(reply); n != len(reply) || !done || err != nil {
					b.Fatal(n, done, err)
				}
			}
		})
	}
}
