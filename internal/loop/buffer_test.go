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
	noise := make([]byte, 2<<20)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	for range 5000 {
		n := rng.IntN(1<<rng.IntN(20) + 1)
		from := rng.IntN(len(noise) - n)
		p := bytes.Clone(noise[from : from+n])
		b.Append(l, p)
		want = append(want, p...)
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
	if most < 4*chunkSize {
		t.Errorf("at most %d bytes waited", most)
	}
	if b.Cap() != 0 {
		t.Errorf("%d bytes of memory are held by an empty one", b.Cap())
	}
}
