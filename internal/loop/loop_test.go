package loop

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// patience is how long tests wait for what comes: only a hung program is later.
const patience = 2 * time.Minute

// echo sends back what it reads, and remembers how it ended.
type echo struct {
	l      *Loop
	c      *Conn
	out    Buffer
	minLen int // consumes nothing before that many bytes are there
	closed chan error
}

func (e *echo) Read(buf []byte) int {
	if len(buf) < e.minLen {
		e.c.Need(e.minLen-len(buf), 0)
		return 0
	}
	e.out.Append(e.l, buf)
	e.c.Flush()
	return len(buf)
}
func (e *echo) Output() []byte   { return e.out.Bytes() }
func (e *echo) Wrote(n int)      { e.out.Take(e.l, n) }
func (e *echo) Closed(err error) { e.out.Free(e.l); e.closed <- err }

// pollers make a loop on either poller.
var pollers = map[string]func() (*Loop, error){
	"native":   New,
	"portable": func() (*Loop, error) { return NewPortable(), nil },
}

// onBoth runs a test on either poller.
func onBoth(t *testing.T, test func(t *testing.T, l *Loop)) {
	for name, make := range pollers {
		t.Run(name, func(t *testing.T) {
			l, err := make()
			if err != nil {
				t.Fatal(err)
			}
			go l.Run()
			defer l.Close()
			test(t, l)
		})
	}
}

// dial returns the client's end of a connection whose other end l serves.
func dial(t *testing.T, l *Loop, e *echo) *net.TCPConn {
	t.Helper()
	return dialHandler(t, l, e, e)
}

// dialHandler is dial for a handler that has more to it than e.
func dialHandler(t testing.TB, l *Loop, e *echo, h Handler) *net.TCPConn {
	t.Helper()
	client, server := connected(t, "tcp", "127.0.0.1:0")
	serve(t, l, server, h, e)
	return client.(*net.TCPConn)
}

// connected returns both ends of a connection, of which the client's is closed with the test.
func connected(t testing.TB, network, addr string) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if client, err = net.Dial(network, ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// native is a loop on the poller of this system, which runs until the test ends.
func native(t testing.TB) *Loop {
	t.Helper()
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	go l.Run()
	t.Cleanup(l.Close)
	return l
}

func TestEcho(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		for _, size := range []int{1, 100, scratchSize - 1, scratchSize, 5 << 20} {
			e := &echo{minLen: size}
			client := dial(t, l, e)
			sent := make([]byte, size)
			rand.Read(sent)
			go client.Write(sent)
			got := make([]byte, size)
			if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("%d bytes: err %v, equal %v", size, err, bytes.Equal(got, sent))
			}
			client.Close()
			if err := <-e.closed; err != io.EOF {
				t.Errorf("closed with %v, want EOF", err)
			}
		}
	})
}

// What was read of a connection before a loop had it comes first, also before the end of the input.
func TestOffer(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		e := &echo{minLen: len("abcd"), closed: make(chan error, 1), l: l}
		client, server := connected(t, "tcp", "127.0.0.1:0")
		client.Write([]byte("cd"))
		client.(*net.TCPConn).CloseWrite()
		l.Post(func() {
			e.c, _ = l.Add(server, e)
			e.c.Offer([]byte("ab"))
		})
		got, err := io.ReadAll(client)
		if string(got) != "abcd" || err != nil {
			t.Errorf("echoed %q, %v", got, err)
		}
	})
}

// What the peer announces is not allocated before it has sent as much.
func TestAnnouncedBytesAreNotAllocated(t *testing.T) {
	b := growBuffer([]byte("x"), 512<<20, 0)
	if cap(b) > 2*scratchSize {
		t.Errorf("cap = %d", cap(b))
	}
}

func TestPauseKeepsInputAndNoticesTheEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		e := &echo{}
		client := dial(t, l, e)
		paused := make(chan struct{})
		l.Post(func() { e.c.Pause(0); close(paused) })
		<-paused
		if _, err := client.Write([]byte("kept")); err != nil {
			t.Fatal(err)
		}
		client.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) //house:brief nothing comes
		if n, err := client.Read(make([]byte, 8)); err == nil {
			t.Fatalf("a paused connection answered %d bytes", n)
		}
		l.Post(func() { e.c.Resume() })
		client.SetReadDeadline(time.Now().Add(patience))
		got := make([]byte, 4)
		if _, err := io.ReadFull(client, got); err != nil || string(got) != "kept" {
			t.Fatalf("got %q, %v", got, err)
		}
		l.Post(func() { e.c.Pause(0) })
		client.Close()
		if err := closing(t, e); err != io.EOF {
			t.Errorf("closed with %v, want EOF", err)
		}
	})
}

// closing waits until the connection is closed.
func closing(t *testing.T, e *echo) error {
	t.Helper()
	select {
	case err := <-e.closed:
		return err
	case <-time.After(patience):
		t.Fatal("the end was not noticed")
		return nil
	}
}

// The end of a paused connection is noticed behind all that it is to keep. Beyond that it is closed.
func TestPausedConnectionKeepsWhatItIsTold(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		const most = 5 << 20
		for behind, want := range map[int]error{100: io.EOF, most / 2: io.EOF, 2 * most: ErrUnread} {
			e := &echo{}
			client := dial(t, l, e)
			l.Post(func() { e.c.Pause(most) })
			client.SetDeadline(time.Now().Add(patience))
			_, err := client.Write(make([]byte, behind))
			client.CloseWrite()
			if got := closing(t, e); got != want || want == io.EOF && err != nil {
				t.Errorf("%d bytes: written with %v, closed with %v, want %v", behind, err, got, want)
			}
			client.Close()
		}
	})
}

// A handler that takes a long input in small portions gets all of it, and what is left of it is not copied
// for each of them.
func TestLongInputInPortions(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		const all, portion = 3 << 20, 1000
		h := &portions{most: portion}
		client := dialHandler(t, l, &h.echo, h)
		l.Post(func() { h.c.Pause(2 * all) })
		client.SetDeadline(time.Now().Add(patience))
		sent := make([]byte, all)
		rand.Read(sent)
		if _, err := client.Write(sent); err != nil {
			t.Fatal(err)
		}
		client.CloseWrite()
		for eof := make(chan bool); ; {
			l.Post(func() { eof <- h.c.eof })
			if <-eof {
				break
			}
		}
		moves, memory := 0, 0
		for done := make(chan int); ; {
			l.Post(func() {
				end := memoryEnd(h.c.in)
				memory = max(memory, h.c.InputMemory())
				h.c.Resume()
				if memoryEnd(h.c.in) != end {
					moves++
				}
				done <- len(h.got)
			})
			if <-done == all {
				break
			}
		}
		if !bytes.Equal(h.got, sent) {
			t.Error("what came is not what was sent")
		}
		if moves > 2*Shared/portion {
			t.Errorf("the input was copied %d times", moves)
		}
		if memory < all {
			t.Errorf("it counts %d bytes of memory", memory)
		}
	})
}

// memoryEnd is the last byte of the memory of b: it stays while its front is cut off.
func memoryEnd(b []byte) *byte {
	if cap(b) == 0 {
		return nil
	}
	return unsafe.SliceData(b[cap(b)-1 : cap(b)])
}

// portions takes at most so many bytes, and pauses.
type portions struct {
	echo
	most int
	got  []byte
}

func (p *portions) Read(buf []byte) int {
	n := min(p.most, len(buf))
	p.got = append(p.got, buf[:n]...)
	p.c.Pause(1 << 30)
	return n
}

func (p *portions) EOF() bool { return true }

// A peer sees the end of the stream behind the output, and what it sends after that still comes.
func TestEndOfOutput(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		e := &echo{}
		client := dial(t, l, e)
		client.SetDeadline(time.Now().Add(patience))
		l.Post(func() {
			e.minLen = 1 << 20
			e.out.Append(l, make([]byte, 3<<20))
			e.c.EndOutput()
		})
		if n, err := io.Copy(io.Discard, client); n != 3<<20 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		client.Write([]byte("after"))
		for kept := make(chan int); ; {
			l.Post(func() { kept <- e.c.Kept() })
			if <-kept == 5 {
				break
			}
		}
		client.Close()
		if err := closing(t, e); err != io.EOF {
			t.Errorf("closed with %v, want EOF", err)
		}
	})
}

// A peer that floods a connection that keeps little fills one buffer.
func TestPausedConnectionIsBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		e := &echo{}
		client := dial(t, l, e)
		l.Post(func() { e.c.Pause(0) })
		client.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		junk := make([]byte, 1<<20)
		for {
			if _, err := client.Write(junk); err != nil {
				break
			}
		}
		kept := make(chan int)
		l.Post(func() { kept <- cap(e.c.in) })
		if n := <-kept; n > 4*scratchSize {
			t.Errorf("%d bytes kept for a paused connection", n)
		}
		if _, portable := l.poller.(*portable); portable {
			return // it sees the end only behind the input before it
		}
		client.SetLinger(0)
		client.Close()
		closing(t, e)
	})
}

func TestResetIsToldFromEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		e := &echo{}
		client := dial(t, l, e)
		client.SetLinger(0)
		client.Close()
		if err := <-e.closed; err == nil || err == io.EOF {
			t.Errorf("closed with %v", err)
		}
	})
}

func TestPostAndAfter(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		const n = 10000
		var ran atomic.Int64
		for range 4 {
			go func() {
				for range n {
					l.Post(func() { ran.Add(1) })
				}
			}()
		}
		for deadline := time.Now().Add(patience); ran.Load() < 4*n; {
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d posts ran", ran.Load(), 4*n)
			}
			time.Sleep(time.Millisecond)
		}
		fired := make(chan struct{})
		l.After(time.Millisecond, func() { close(fired) })
		<-fired
		var late atomic.Int64
		for before := int64(0); ; before = late.Load() {
			stopped := l.After(20*time.Millisecond, func() { late.Add(1) })
			if !stopped.Stop() { // this goroutine had to wait, and the timer was faster
				for late.Load() == before {
					time.Sleep(time.Millisecond)
				}
				continue
			}
			time.Sleep(50 * time.Millisecond)
			if late.Load() != before {
				t.Error("a stopped timer fired")
			}
			break
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	before := runtime.NumGoroutine()
	onBoth(t, func(t *testing.T, l *Loop) {
		e := &echo{}
		dial(t, l, e)
		l.Close()
		if err := <-e.closed; err != net.ErrClosed {
			t.Errorf("closed with %v", err)
		}
		if l.Post(func() {}) {
			t.Error("a closed loop took a post")
		}
	})
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}
