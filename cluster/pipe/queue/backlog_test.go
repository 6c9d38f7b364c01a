package queue

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"lockproxy/internal/loop"
)

// Requests of all sizes, written in all kinds of pieces and answered at all times, are written in order and
// kept until they are answered.
func TestBacklog(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var b Backlog
	var queued [][]byte
	var in, out []byte
	var shared []byte // for requests that lie one behind the other, and are not copied
	for i := range 20000 {
		switch random.IntN(3) {
		case 0:
			if random.IntN(4) > 0 && i/100%2 == 0 {
				n := 1 + random.IntN(300)
				if cap(shared)-len(shared) < n {
					shared = make([]byte, 0, 4000)
				}
				from := len(shared)
				shared = append(shared, bytes.Repeat([]byte{byte(i)}, n)...)
				req := shared[from:]
				b.Keep(req)
				queued, in = append(queued, req), append(in, req...)
				break
			}
			n := 1 + random.IntN(300)
			if random.IntN(50) == 0 {
				n = loop.Shared + n
			}
			req := bytes.Repeat([]byte{byte(i)}, n)
			b.Append(req)
			queued, in = append(queued, bytes.Clone(req)), append(in, req...)
			if n <= loop.Shared {
				clear(req) // it was copied
			}
		case 1:
			if p := b.Output(); len(p) > 0 {
				n := 1 + random.IntN(min(len(p), 5000))
				out = append(out, p[:n]...)
				b.Wrote(n)
			}
		case 2:
			if len(queued) == 0 {
				break
			}
			size := len(queued[0])
			if !bytes.Equal(b.Oldest(size), queued[0]) {
				t.Fatalf("step %d: the oldest request is not what was queued", i)
			}
			waits := 0
			for _, req := range queued {
				waits += len(req)
			}
			if written := len(in)-waits+size <= len(out); b.Written(size) != written {
				t.Fatalf("step %d: written = %v", i, !written)
			} else if written {
				b.Pop(size, 4096)
				queued = queued[1:]
			}
		}
	}
	if !bytes.Equal(out, in[:len(out)]) || len(out) < len(in)/2 {
		t.Errorf("of %d bytes %d were written, not all as queued", len(in), len(out))
	}
	left := 0
	for _, req := range queued {
		left += len(req)
	}
	if b.Size() != left {
		t.Errorf("size = %d, want %d", b.Size(), left)
	}
}

// Requests that are kept are not copied, and those that lie one behind the other are written together.
func TestBacklogKeeps(t *testing.T) {
	var b Backlog
	b.Append([]byte("small"))
	memory := []byte("onetwothreefour")
	for _, req := range [][]byte{memory[:3], memory[3:6], memory[11:], memory[6:11]} {
		b.Keep(req)
	}
	b.Append([]byte("small"))
	for _, want := range []string{"small", "onetwo", "four", "three", "small"} {
		out := b.Output()
		if string(out) != want {
			t.Errorf("%q is written, want %q", out, want)
		}
		if want == "onetwo" && &out[0] != &memory[0] {
			t.Error("what was to be kept was copied")
		}
		b.Wrote(len(out))
	}
	for _, want := range []string{"small", "one", "two", "four", "three", "small"} {
		if got := b.Oldest(len(want)); string(got) != want || !b.Written(len(want)) {
			t.Errorf("the oldest is %q, want %q", got, want)
		}
		b.Pop(len(want), 0)
	}
}

// A small request costs no memory once there is room for it.
func TestBacklogAllocatesNothing(t *testing.T) {
	var b Backlog
	req := make([]byte, 100)
	if n := testing.AllocsPerRun(1000, func() {
		b.Append(req)
		b.Append(req)
		b.Wrote(len(b.Output()))
		b.Pop(100, 4096)
		b.Pop(100, 4096)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
