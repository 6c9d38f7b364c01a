package loop

import (
	"bytes"
	"io"
	"runtime"
	"testing"
	"time"
)

// list consumes its input when size bytes of it are there. As who reads the parts of a long
// list it knows of one byte only that is missing.
type list struct {
	echo
	size   int
	got    []byte
	knows  bool // about how many bytes are missing
	likely int
	done   chan bool
}

func (h *list) Read(buf []byte) int {
	if len(buf) < h.size {
		if h.knows {
			h.likely = (h.size - len(buf)) * 15 / 16
		}
		h.c.Need(1, h.likely)
		return 0
	}
	h.got = buf
	h.done <- true
	return len(buf)
}

// sendList sends size bytes to a list, in writes of atOnce bytes, and returns what came.
func sendList(t testing.TB, l *Loop, size, atOnce int, knows bool) []byte {
	h := &list{size: size, knows: knows, done: make(chan bool, 1)}
	client := dialHandler(t, l, &h.echo, h)
	sent := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	for i := 0; i < size; i += atOnce {
		if _, err := client.Write(sent[i:min(i+atOnce, size)]); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-h.done:
	case <-time.After(patience):
		t.Fatalf("%d bytes have not come", size)
	}
	if !bytes.Equal(h.got, sent) {
		t.Fatalf("%d bytes came, and are not those that were sent", len(h.got))
	}
	return h.got
}

// A long input is copied a few times, however long it gets: what is allocated for it is in
// proportion to its length.
func TestLongInputIsCopiedInProportion(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		for _, size := range []int{1 << 20, 16 << 20} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			sendList(t, l, size, 64<<10, false)
			runtime.ReadMemStats(&after)
			allocated := after.TotalAlloc - before.TotalAlloc
			if allocated > uint64(8*size) { // the writer of the portable loop and sent among it
				t.Errorf("%d MiB of input: %d MiB were allocated", size>>20, allocated>>20)
			}
		}
	})
}

// What is likely to come is not allocated before a quarter of it is there, and most of it is never copied.
func TestGrowToWhatIsLikely(t *testing.T) {
	const size = 110 << 20
	steps, copied := 0, 0
	b := make([]byte, scratchSize)
	for len(b) < size {
		larger := growBuffer(b, 1, (size-len(b))*15/16)
		if cap(larger) > 4*len(b)+4<<10 {
			t.Errorf("%d bytes are allocated when %d are there", cap(larger), len(b))
		}
		steps, copied = steps+1, copied+len(b)
		b = larger[:min(cap(larger), size)]
	}
	if steps > 7 || copied > size/2 {
		t.Errorf("%d bytes are copied in %d steps", copied, steps)
	}
	if b = growBuffer(b, 1, 0); cap(b) > size*3/2 {
		t.Errorf("%d bytes are allocated for what is not known", cap(b))
	}
}

// While a large buffer is being copied to a larger one nothing of what comes is lost, and neither is
// the end of the connection.
func TestEndBehindLongInput(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		for range 5 {
			const size = 8 << 20
			h := &list{size: size, done: make(chan bool, 1)}
			client := dialHandler(t, l, &h.echo, h)
			go func() {
				client.Write(make([]byte, size))
				client.Close()
			}()
			select {
			case <-h.done:
			case <-time.After(patience):
				t.Fatal("the input has not come")
			}
			if err := <-h.closed; err != io.EOF {
				t.Errorf("closed with %v, want EOF", err)
			}
		}
	})
}

// A connection that is closed while its buffer is being copied stays closed.
func TestCloseWhileBufferGrows(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		h := &list{size: 64 << 20}
		dialHandler(t, l, &h.echo, h)
		l.Post(func() {
			h.c.in = make([]byte, growApart)
			if h.c.makeRoom() {
				t.Error("the loop has copied it itself")
			}
			h.c.Close()
		})
		<-h.closed
		for grows := true; grows; time.Sleep(time.Millisecond) {
			looked := make(chan bool)
			l.Post(func() { looked <- h.c.growing })
			grows = <-looked
		}
	})
}

func BenchmarkLongInput(b *testing.B) {
	l := native(b)
	const size = 16 << 20
	b.SetBytes(size)
	b.ReportAllocs()
	for range b.N {
		sendList(b, l, size, 64<<10, true)
	}
}

// counted is an echo that counts what is written in a round.
type counted struct {
	echo
	inRound, most, all int
}

func (h *counted) Wrote(n int) {
	h.inRound += n
	h.all += n
	h.most = max(h.most, h.inRound)
	h.echo.Wrote(n)
}

// However fast a peer takes a long output, others have their turn: one round writes a part of it.
func TestLongOutputTakesSeveralRounds(t *testing.T) {
	const size = 16 << 20
	for name, open := range pollers {
		t.Run(name, func(t *testing.T) {
			l, err := open()
			if err != nil {
				t.Fatal(err)
			}
			h := &counted{}
			l.Watch(func() { h.inRound = 0 })
			go l.Run()
			defer l.Close()
			client := dialHandler(t, l, &h.echo, h)
			sent := bytes.Repeat([]byte("0123456789abcdef"), size/16)
			l.Post(func() {
				for part := sent; len(part) > 0; part = part[256<<10:] {
					h.out.Append(l, part[:256<<10])
				}
				h.c.Flush()
			})
			got := make([]byte, size)
			if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("err %v, equal %v", err, bytes.Equal(got, sent))
			}
			counts := make(chan [2]int)
			l.Post(func() { counts <- [2]int{h.most, h.all} })
			if n := <-counts; n[0] > maxWrite || n[1] != size {
				t.Errorf("%d bytes in one round, of %d", n[0], n[1])
			}
		})
	}
}
