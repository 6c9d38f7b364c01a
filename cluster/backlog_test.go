package cluster

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"lockproxy/internal/loop"
)

// Requests of all sizes, written in all pieces and answered at all times, are
// written in order and kept until they are answered.
func TestBacklog(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var b backlog
	var queued [][]byte
	var in, out []byte
	for i := range 20000 {
		switch random.IntN(3) {
		case 0:
			n := 1 + random.IntN(300)
			if random.IntN(50) == 0 {
				n = loop.Shared + n
			}
			req := bytes.Repeat([]byte{byte(i)}, n)
			b.append(req)
			queued, in = append(queued, bytes.Clone(req)), append(in, req...)
			if n <= loop.Shared {
				clear(req) // it was copied
			}
		case 1:
			if p := b.output(); len(p) > 0 {
				n := 1 + random.IntN(min(len(p), 5000))
				out = append(out, p[:n]...)
				b.sent += n
			}
		case 2:
			if len(queued) == 0 {
				break
			}
			size := len(queued[0])
			if !bytes.Equal(b.oldest(size), queued[0]) {
				t.Fatalf("step %d: the oldest request is not what was queued", i)
			}
			waits := 0
			for _, req := range queued {
				waits += len(req)
			}
			if written := len(in)-waits+size <= len(out); b.written(size) != written {
				t.Fatalf("step %d: written = %v", i, !written)
			} else if written {
				b.pop(size, 4096)
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
	if b.size != left {
		t.Errorf("size = %d, want %d", b.size, left)
	}
}

// A small request costs no memory once there is room for it.
func TestBacklogAllocatesNothing(t *testing.T) {
	var b backlog
	req := make([]byte, 100)
	if n := testing.AllocsPerRun(1000, func() {
		b.append(req)
		b.append(req)
		b.sent += len(b.output())
		b.pop(100, 4096)
		b.pop(100, 4096)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
