package pipe

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/loop"
)

// Requests of all sizes, written in all kinds of pieces and answered at all times, are written in order and
// kept until they are answered.
func TestBacklog(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var b backlog
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
				b.keepBytes(req)
				queued, in = append(queued, req), append(in, req...)
				break
			}
			n := 1 + random.IntN(300)
			if random.IntN(50) == 0 {
				n = loop.Shared + n
			}
			req := bytes.Repeat([]byte{byte(i)}, n)
			b.appendBytes(req)
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

// Requests that are kept are not copied, and those that lie one behind the other are written together.
func TestBacklogKeeps(t *testing.T) {
	var b backlog
	b.appendBytes([]byte("small"))
	memory := []byte("onetwothreefour")
	for _, req := range [][]byte{memory[:3], memory[3:6], memory[11:], memory[6:11]} {
		b.keepBytes(req)
	}
	b.appendBytes([]byte("small"))
	for _, want := range []string{"small", "onetwo", "four", "three", "small"} {
		out := b.output()
		if string(out) != want {
			t.Errorf("%q is written, want %q", out, want)
		}
		if want == "onetwo" && &out[0] != &memory[0] {
			t.Error("what was to be kept was copied")
		}
		b.sent += len(out)
	}
	for _, want := range []string{"small", "one", "two", "four", "three", "small"} {
		if got := b.oldest(len(want)); string(got) != want || !b.written(len(want)) {
			t.Errorf("the oldest is %q, want %q", got, want)
		}
		b.pop(len(want), 0)
	}
}

// A small request costs no memory once there is room for it.
func TestBacklogAllocatesNothing(t *testing.T) {
	var b backlog
	req := make([]byte, 100)
	if n := testing.AllocsPerRun(1000, func() {
		b.appendBytes(req)
		b.appendBytes(req)
		b.sent += len(b.output())
		b.pop(100, 4096)
		b.pop(100, 4096)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// looked is a client with one request. It counts how often its order is asked for.
type looked struct {
	keeper
	client int64
	times  int
}

func (o *looked) Order(tag uint32) (client int64, n uint32, latest bool) {
	o.times++
	return o.client, tag, true
}

// TestManyThatWaitLeaveTime proves that requests which wait for a node that is down are looked at more rarely
// the more there are: the loop serves others meanwhile.
func TestManyThatWaitLeaveTime(t *testing.T) {
	times := func(n int) (times int) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{}, nil)
			all := make([]looked, n)
			r.own(func() {
				for i := range all {
					all[i].client = int64(i + 1)
					r.send(Mode{Proto: 2}, &all[i], 1, true, "GET")
				}
			})
			time.Sleep(2 * time.Second)
			r.on(func() { times = all[n/2].times })
		})
		return times
	}
	few, many := times(10), times(20_000)
	if few < 100 || many > few/2 {
		t.Errorf("one of 10 was looked at %d times in 2 s, one of 20 000 %d times", few, many)
	}
}
