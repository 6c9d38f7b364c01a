package locks

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"lockproxy/cmd/lockproxy/tool/client"
	"lockproxy/internal/scripted"
)

// some are locks with all that a table may have to show.
func some() []Lock {
	holder := ShownHolder{Token: "8a4f9da0", Mode: "write", TTL: 59_900, Age: 90_061_000,
		ShownClient: ShownClient{Client: "worker", Addr: "10.0.0.7:41236", User: "shop", Proxy: "p1"}}
	return []Lock{
		{Name: "a", State: "write", Fence: 7, Holders: []ShownHolder{holder}, Waiters: 12, Key: "lock:{a}"},
		{Name: "b\x1b[2J\n", State: "read", Holders: []ShownHolder{{Token: "x", TTL: 9}, holder, holder}},
		{Name: "c", State: "permits", Used: 1, Of: 3, Holders: []ShownHolder{{Token: "00ff00ff", Age: 1500}}},
		{Name: "d", State: "resting", Rest: 61_000},
	}
}

func TestTable(t *testing.T) {
	got := table(some(), 0)
	lines := strings.Split(strings.TrimRight(got, "\n"), "\n")
	fields := func(line string) string { return strings.Join(strings.Fields(line), " ") }
	for i, want := range []string{
		"NAME STATE HOLDER SINCE TTL WAITERS",
		"a write worker 10.0.0.7:41236 25h01m 1m00s 12",
		`b\x1b[2J\n read token x +2 0ms 9ms 0`,
		"c permits 1/3 token 00ff00ff 1.5s 0ms 0",
		"d resting 1m01s 0",
	} {
		if fields(lines[i]) != want {
			t.Errorf("line %d: %q, want %q", i, lines[i], want)
		}
	}
	for _, width := range []int{200, 80, 60, 40, 10, 1} {
		for line := range strings.Lines(table(some(), width)) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d columns in %d: %q", n, width, line)
			}
		}
	}
}

func TestBrief(t *testing.T) {
	for ms, want := range map[int64]string{
		0: "0ms", 999: "999ms", 1540: "1.5s", 9999: "10s", 59_400: "59s", 61_000: "1m01s",
		3_600_000: "1h00m", 47 * 3_600_000: "47h00m", 49 * 3_600_000: "2d01h",
	} {
		if got := brief(ms); got != want {
			t.Errorf("%d: %s, want %s", ms, got, want)
		}
	}
}

// A reply of another shape than expected is no reason to fall over.
func TestReadHostile(t *testing.T) {
	for _, reply := range []any{nil, "x", []any{"name"}, []any{1, 2}, []any{"holders", "x", "waiters",
		"many"},
		[]any{"holders", []any{"x", nil, []any{"ttl"}}, "name", "a"}} {
		l := readLock(reply)
		table([]Lock{l}, 80)
		l.told()
	}
	l := readLock([]any{"name", "a", "new", "x", "waiters", int64(3), "holders", []any{
		[]any{"token", "t", "addr", "h:1", "ttl", int64(5)}}})
	if l.Name != "a" || l.Waiters != 3 || len(l.Holders) != 1 || l.Holders[0].Addr != "h:1" {
		t.Errorf("%+v", l)
	}
}

func TestChanges(t *testing.T) {
	var b bytes.Buffer
	w := &changes{to: &b}
	step := func(all []Lock, want ...string) {
		t.Helper()
		b.Reset()
		if err := w.showLocks(all); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
		if len(lines) != max(len(want), 1) {
			t.Errorf("%q, want %q", lines, want)
			return
		}
		for i, part := range want {
			if !strings.Contains(lines[i], part) {
				t.Errorf("%q, want %q", lines[i], part)
			}
		}
	}
	all := some()
	step(all[:1], ` held name="a" state="write" holder="worker 10.0.0.7:41236"`)
	step(all[:1])
	older := all[0]
	older.Holders = []ShownHolder{all[0].Holders[0]}
	older.Holders[0].TTL, older.Holders[0].Age = 3, 4
	step([]Lock{older}) // time alone is no change
	older.Waiters++
	step([]Lock{older, all[1]}, ` changed name="a" `, ` held name="b\x1b[2J\n" `)
	step([]Lock{older}, ` gone name="b\x1b[2J\n" state="free"`)
}

func BenchmarkTable(b *testing.B) {
	var all []Lock
	for i := range most {
		l := some()[i%4]
		l.Name = fmt.Sprint("lock-", i)
		all = append(all, l)
	}
	for b.Loop() {
		table(all, 80)
	}
}

// A list may take much longer than connecting; one that takes too long is told with what helps.
func TestListTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := 50 * time.Second
		near, far := net.Pipe()
		go scripted.Each(far, func(words []string) bool { // ends with near
			time.Sleep(takes)
			return scripted.Write(far, "*1\r\n*2\r\n$4\r\nname\r\n$3\r\njob\r\n")
		}, nil)
		a := &locksFlags{most: time.Minute, at: &client.Options{}, conn: client.Over(near)}
		defer a.conn.Close()
		all, err := a.listLocks(t.Context(), "*")
		if err != nil || len(all) != 1 || all[0].Name != "job" {
			t.Errorf("%v, %v", all, err)
		}
		takes = 2 * time.Minute
		_, err = a.listLocks(t.Context(), "*")
		if err == nil || !strings.Contains(err.Error(), "--timeout") {
			t.Errorf("it is told: %v", err)
		}
		time.Sleep(takes) // until the server is through
	})
}
