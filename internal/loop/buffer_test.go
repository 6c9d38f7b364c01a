package loop

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// What is appended is taken in its order, whatever the sizes, and nothing is held when all is taken.
func TestBuffer(t *testing.T) {
	l := &Loop{}
	var b Buffer
	var want, got []byte
	rng := rand.New(rand.NewPCG(1, 2))
	most := 0
	var adopted, copies [][]byte
	noise := make([]byte, 2<<20)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	for range 1000 {
		n := rng.IntN(1<<rng.IntN(20) + 1)
		from := rng.IntN(len(noise) - n)
		p := bytes.Clone(noise[from : from+n])
		want = append(want, p...)
		if len(p) > Shared && rng.IntN(2) == 0 {
			b.Adopt(l, p)
			adopted, copies = append(adopted, p), append(copies, bytes.Clone(p))
		} else {
			b.Append(l, p)
			clear(p) // it was copied
		}
		for rng.IntN(8) > 2 && b.Len() > 0 {
			piece := b.Bytes()
			if len(piece) == 0 {
				t.Fatalf("nothing of %d bytes can be taken", b.Len())
			}
			n := 1 + rng.IntN(len(piece))
			got = append(got, piece[:n]...)
			b.Take(l, n)
		}
		most = max(most, b.Len())
		if b.Len() != len(want)-len(got) {
			t.Fatalf("%d bytes wait, want %d", b.Len(), len(want)-len(got))
		}
		if b.Cap() > 2*b.Len()+3*chunkSize {
			t.Fatalf("%d bytes of memory for %d", b.Cap(), b.Len())
		}
	}
	for b.Len() > 0 {
		got = append(got, b.Bytes()...)
		b.Take(l, len(b.Bytes()))
	}
	if !bytes.Equal(got, want) {
		t.Error("other bytes came out than went in")
	}
	for i := range adopted {
		if !bytes.Equal(adopted[i], copies[i]) {
			t.Fatalf("somebody wrote to piece %d of %d", i, len(adopted))
		}
	}
	if most < 4*chunkSize {
		t.Errorf("at most %d bytes waited", most)
	}
	if b.Cap() != 0 {
		t.Errorf("%d bytes of memory are held by an empty one", b.Cap())
	}
}

// What is adopted is not copied, wherever it lies in the queue.
func TestBufferAdopts(t *testing.T) {
	l := &Loop{}
	var b Buffer
	first, third := bytes.Repeat([]byte("1"), 2*Shared), bytes.Repeat([]byte("3"), 2*Shared)
	b.Adopt(l, first)
	b.Append(l, []byte("2"))
	b.Adopt(l, third)
	b.Append(l, []byte("4"))
	for _, want := range [][]byte{first, []byte("2"), third, []byte("4")} {
		got := b.Bytes()
		if !bytes.Equal(got, want) || len(want) > Shared && &got[0] != &want[0] {
			t.Fatalf("%d bytes that begin with %.1q, want the %d with %.1q in their memory", len(got), got,
				len(want), want)
		}
		b.Take(l, len(got))
	}
	if b.Len() != 0 || b.Cap() != 0 {
		t.Errorf("%d bytes are left, in %d", b.Len(), b.Cap())
	}
}

// However many connections wait for a reply at a time, their buffers are used again.
func TestBuffersAreUsedAgain(t *testing.T) {
	for _, test := range []struct{ connections, size int }{{5000, 9}, {2000, 1033}} {
		l := &Loop{}
		all := make([]Buffer, test.connections)
		reply := make([]byte, test.size)
		n := testing.AllocsPerRun(5, func() {
			for i := range all {
				all[i].Append(l, reply)
			}
			for i := range all {
				all[i].Take(l, len(reply))
			}
		})
		if n > 0 {
			t.Errorf("%d replies of %d bytes allocate %v times", test.connections, test.size, n)
		}
	}
}

// What comes in pieces lies in one buffer from the first one on, if the last time was like it.
func TestBufferKnowsItsUse(t *testing.T) {
	l := &Loop{}
	var b Buffer
	piece := make([]byte, 1033)
	for _, want := range []int{512, 64 << 10, 2 << 10} {
		b.Append(l, piece[:9])
		if b.Cap() != want {
			t.Errorf("it begins with %d bytes, want %d", b.Cap(), want)
		}
		if want == 512 {
			for range 16 {
				b.Append(l, piece)
			}
		} else if want == 64<<10 {
			b.Append(l, piece)
		}
		b.Take(l, b.Len())
	}
}

// A reply that is kept until its turn lies in buffers of the loop, however it grows.
func TestKeepUsesBuffersAgain(t *testing.T) {
	l := &Loop{}
	piece := make([]byte, 1033)
	n := testing.AllocsPerRun(5, func() {
		var kept []byte
		for range 60 {
			kept = l.Keep(kept, piece)
		}
		l.Put(kept)
	})
	if n > 0 {
		t.Errorf("it allocates %v times", n)
	}
}
