package commands_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"lockproxy/commands"
	"lockproxy/commands/merge"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// shard is a master that refuses what a node of a cluster refuses.
func shard(t *testing.T, data map[string]string) func(args []string) string {
	return func(args []string) string {
		step := 1
		if args[0] == "MSET" {
			step = 2
		}
		reply, n := []byte(nil), 0
		for i := 1; i < len(args); i += step {
			if slot.Of([]byte(args[i])) != slot.Of([]byte(args[1])) {
				t.Errorf("several slots: %q", args)
			}
			value, ok := data[args[i]]
			switch {
			case step == 2:
				data[args[i]] = args[i+1]
			case ok:
				n++
				reply = fmt.Appendf(reply, "$%d\r\n%s\r\n", len(value), value)
			default:
				reply = append(reply, "$-1\r\n"...)
			}
		}
		switch args[0] {
		case "MGET":
			return fmt.Sprintf("*%d\r\n%s", len(args)-1, reply)
		case "MSET":
			return "+OK\r\n"
		}
		return ":" + strconv.Itoa(n) + "\r\n"
	}
}

func TestSplit(t *testing.T) {
	f := newSession(t)
	data := map[string]string{"a": "1", "b": "2", "{a}2": "3", "c": "4\r\n"}
	f.Masters = []func([]string) string{shard(t, data), shard(t, data), shard(t, data)}
	for _, test := range []struct {
		line, want string
		parts      int
	}{
		{"MGET a b c", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$3\r\n4\r\n\r\n", 3},
		{"MGET c nosuch b {a}2 a c",
			"*6\r\n$3\r\n4\r\n\r\n$-1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n1\r\n$3\r\n4\r\n\r\n", 4},
		{"MGET {a}2 a", "*2\r\n$1\r\n3\r\n$1\r\n1\r\n", 1},
		{"EXISTS a a b nosuch", ":3\r\n", 3},
		{"DEL a b", ":2\r\n", 2},
		{"UNLINK a b nosuch", ":2\r\n", 3},
		{"TOUCH c {a}2 b", ":3\r\n", 3},
		{"MSET x 1 y 2 x 3", "+OK\r\n", 2},
		{"MSET x 1 y", "-ERR wrong number of arguments for 'mset' command\r\n", 0},
		{"MSETNX a 1 b 2", "-CROSSSLOT Keys in request don't hash to the same slot\r\n", 0},
		{"RENAME a b", "-CROSSSLOT Keys in request don't hash to the same slot\r\n", 0},
	} {
		if got := f.Do(test.line); got != test.want || len(f.Sent) != test.parts {
			t.Errorf("%s: %q in %d parts", test.line, got, len(f.Sent))
		}
	}
	if data["x"] != "3" || data["y"] != "2" {
		t.Errorf("MSET in the wrong order: %v", data)
	}
}

// One part's error is the answer.
func TestSplitError(t *testing.T) {
	f := newSession(t, saying("-CLUSTERDOWN The cluster is down\r\n"),
		saying("*1\r\n$1\r\nx\r\n"))
	for _, line := range []string{"MGET a b c d e f", "MSET a 1 b 2 c 3", "DEL a b c d e"} {
		if got := f.Do(line); got != "-CLUSTERDOWN The cluster is down\r\n" {
			t.Errorf("%s: %q", line, got)
		}
	}
}

func TestUnexpectedReplies(t *testing.T) {
	for _, merge := range []commands.Merge{merge.Sum, merge.Concat, merge.And} {
		for _, reply := range []string{"+OK\r\n", "$1\r\nx\r\n", "*2\r\n$1\r\nx\r\n", ":x\r\n", ":", "*",
			"*1", "_\r\n"} {
			got := string(merge(2, [][]byte{[]byte(":1\r\n"), []byte(reply)}))
			if !strings.HasPrefix(got, "-ERR ") {
				t.Errorf("%q: %q", reply, got)
			}
		}
	}
}

// However many keys there are, each is in the part of its slot, in the order of the command, with what
// belongs to it; and a part is as long as was worked out before it was made.
func TestCut(t *testing.T) {
	for _, n := range []int{2, 100, 1<<12 - 1, 1 << 12, 3 * slot.Count} {
		args := [][]byte{[]byte("MSET")}
		want := make(map[int][]string)
		for i := range n {
			key, value := fmt.Sprintf("key:%d", i%(n/2+1)), strings.Repeat("v", i%120)
			args = append(args, []byte(key), []byte(value))
			s := slot.Of([]byte(key))
			want[s] = append(want[s], key, value)
		}
		cut, _ := redis7(t).Lookup(args[0]).CutBySlot(args)
		parts, last := cut.All(), -1
		for i, part := range parts {
			request := string(resp.AppendCommandStrings(nil, append([]string{"MSET"}, want[part.Slot]...)...))
			if string(part.Request) != request || part.Place != i || part.Slot != cut.Slot(i) ||
				part.Slot <= last {
				t.Fatalf("%d keys, part %d of slot %d behind %d: %q, want %q", n, i, part.Slot, last,
					part.Request, request)
			}
			if len(part.Request) != cut.SizeOf(i) {
				t.Fatalf("%d keys, part %d: %d bytes, %d were expected", n, i, len(part.Request),
					cut.SizeOf(i))
			}
			last = part.Slot
		}
		if len(parts) != len(want) {
			t.Errorf("%d keys: %d parts of %d slots", n, len(parts), len(want))
		}
		some := cut.Parts([]int32{int32(len(parts) - 1), 0})
		if string(some[0].Request) != string(parts[len(parts)-1].Request) ||
			string(some[1].Request) != string(parts[0].Request) {
			t.Errorf("%d keys: the last part and the first one are %v", n, some)
		}
	}
}

func BenchmarkSplit(b *testing.B) {
	args := [][]byte{[]byte("MGET")}
	for i := range 16 {
		args = append(args, []byte("key:"+strconv.Itoa(i)))
	}
	cmd := redis7(b).Lookup(args[0])
	reply := []byte("*1\r\n$1\r\nx\r\n")
	b.ReportAllocs()
	for b.Loop() {
		cut, merge := cmd.CutBySlot(args)
		parts := cut.All()
		replies := make([][]byte, len(parts))
		for i := range parts {
			replies[i] = reply
		}
		merge(2, replies)
	}
}

// BenchmarkCut cuts the longest commands.
func BenchmarkCut(b *testing.B) {
	args := [][]byte{[]byte("DEL")}
	for i := range 1_000_000 {
		args = append(args, fmt.Appendf(nil, "%0100d", i))
	}
	cmd := redis7(b).Lookup(args[0])
	b.ReportAllocs()
	for b.Loop() {
		cut, _ := cmd.CutBySlot(args)
		cut.All()
	}
}
