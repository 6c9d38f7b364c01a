package proxy

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"lockproxy/proxy/large"
)

// The window grows with small replies that are read, shrinks with those that pile up, and at once with
// large ones.
func TestWindow(t *testing.T) {
	w := large.Window{Size: large.FirstWindow}
	appended := uint64(0)
	reply := func(n int) {
		appended += uint64(n)
		w.Answered(appended)
	}
	for range 10 {
		reply(100)
		w.Adjust(true, 1000)
	}
	if w.Size != 1000 {
		t.Errorf("%d after small replies", w.Size)
	}
	w.Adjust(false, 1000)
	if w.Size != 500 {
		t.Errorf("%d when they pile up", w.Size)
	}
	reply(large.WindowBytes / 4)
	if w.Size != 4 {
		t.Errorf("%d after a reply of a quarter of WindowBytes", w.Size)
	}
	w.Adjust(false, 1000)
	if w.Size != 4 {
		t.Errorf("%d when large ones pile up", w.Size)
	}
	reply(10 * large.WindowBytes)
	if w.Size != 1 {
		t.Errorf("%d after a reply of ten times WindowBytes", w.Size)
	}
	reply(100)
	w.Adjust(true, 1000)
	if w.Size != 2 {
		t.Errorf("%d after a small one", w.Size)
	}
}

// Of many large replies that nobody reads few are kept, and who reads them after all gets them all.
func TestLargeReplies(t *testing.T) {
	const size, asked = 1 << 20, 100
	want := fmt.Sprintf("$%d\r\n%s\r\n", size, strings.Repeat("x", size))
	answer := func(_ int, command string) string {
		if strings.HasPrefix(command, "GET big") {
			return want
		}
		return "+OK\r\n"
	}
	inBubble(t, 1, Options{Settings: Settings{MaxMemory: 64 << 20}}, answer, func(r *rig) {
		c := r.connect()
		go io.WriteString(c, strings.Repeat("GET big\r\n", asked)) // ends when all is read
		synctest.Wait()
		if n := r.used(); n > 2*(large.FirstWindow+large.WindowBytes/size+1)*size {
			r.Errorf("%d bytes are kept for a client that reads nothing", n)
		}
		got := make([]byte, len(want))
		for i := range asked {
			if n, err := io.ReadFull(c.r, got); err != nil || string(got) != want {
				r.Fatalf("reply %d: %d bytes (%v)", i, n, err)
			}
		}
		c.tell("+OK\r\n", "GET small")
		if n := r.server.Stats().Evicted; n != 0 {
			r.Error("it was closed")
		}
	})
}
