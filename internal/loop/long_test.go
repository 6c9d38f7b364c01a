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
	size int
	got  []byte
	done chan bool
}

func (h *list) Read(buf []byte) int {
	if len(buf) < h.size {
		h.c.Need(1)
		return 0
	}
	h.got = buf
	h.done <- true
	return len(buf)
}

// sendList sends size bytes to a list, in writes of 64 KiB or in one, and returns what came.
func sendList(t testing.TB, l *Loop, size, atOnce int) []byte {
	h := &list{size: size, done: make(chan bool, 1)}
	client := dialHandler(t, l, &h.echo, h)
	sent := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	for i := 0; i < size; i += atOnce {
		if _, err := client.Write(sent[i:min(i+atOnce, size)]); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-h.done:
	case <-time.After(time.Minute):
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
			sendList(t, l, size, 64<<10)
			runtime.ReadMemStats(&after)
			allocated := after.TotalAlloc - before.TotalAlloc
			if allocated > uint64(8*size) { // the writer of the portable loop and sent among it
				t.Errorf("%d MiB of input: %d MiB were allocated", size>>20, allocated>>20)
			}
		}
	})
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
			case <-time.After(time.Minute):
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
	l, err := New()
	if err != nil {
		b.Fatal(err)
	}
	go l.Run()
	defer l.Close()
	const size = 16 << 20
	b.SetBytes(size)
	b.ReportAllocs()
	for range b.N {
		sendList(b, l, size, 64<<10)
	}
}
