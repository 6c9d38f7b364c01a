package loop

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// farewell answers the first bytes that come with a long text, and ends the connection behind it.
type farewell struct {
	conn   *Conn
	out    []byte
	closed chan error
}

func (f *farewell) Read(buf []byte) int {
	if f.out == nil {
		f.out = bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
		f.conn.EndInput(time.Second)
		f.conn.CloseAfterWrite()
	}
	return 0
}
func (f *farewell) Output() []byte   { return f.out }
func (f *farewell) Wrote(n int)      { f.out = f.out[n:] }
func (f *farewell) Closed(err error) { f.closed <- err }

// A peer that writes on, and reads late, gets all that was written before the end: the connection is not
// reset for what it sends meanwhile.
func TestEndReachesWhoWritesOn(t *testing.T) {
	l := native(t)
	client, nc := connected(t, "tcp", "127.0.0.1:0")
	f := &farewell{closed: make(chan error, 1)}
	l.Post(func() { f.conn, _ = l.Add(nc, f) })
	go func() { // ends when the connection does
		for {
			if _, err := client.Write(make([]byte, 10_000)); err != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	time.Sleep(300 * time.Millisecond) // it does not read yet
	client.SetReadDeadline(time.Now().Add(patience))
	got, err := io.Copy(io.Discard, client)
	if got != 1<<20 || err != nil {
		t.Errorf("%d bytes of %d, and then %v", got, 1<<20, err)
	}
	client.Close()
	if err := <-f.closed; err != net.ErrClosed && err != ErrReset {
		t.Error(err)
	}
}

// A peer that writes for ever, and has got everything, is closed all the same; one that is silent at once.
func TestEndIsSoon(t *testing.T) {
	for _, silent := range []bool{true, false} {
		l := native(t)
		client, nc := connected(t, "tcp", "127.0.0.1:0")
		f := &farewell{closed: make(chan error, 1)}
		l.Post(func() { f.conn, _ = l.Add(nc, f) })
		client.Write([]byte("x"))
		go io.Copy(io.Discard, client)
		if !silent {
			go func() { // ends when the connection does
				for {
					if _, err := client.Write([]byte("more")); err != nil {
						return
					}
				}
			}()
		}
		select {
		case <-f.closed:
		case <-time.After(patience):
			t.Errorf("silent: %v: the connection stays", silent)
		}
		client.Close()
	}
}

// endedPeer sends one byte and ends its side, and takes what it is sent slowly.
type endedPeer struct {
	net.Conn
	sent atomic.Bool
	got  atomic.Int64
}

func (p *endedPeer) Read(b []byte) (int, error) {
	if p.sent.Swap(true) {
		return 0, io.EOF
	}
	return copy(b, "x"), nil
}

func (p *endedPeer) Write(b []byte) (int, error) {
	time.Sleep(time.Millisecond)
	p.got.Add(int64(len(b)))
	return len(b), nil
}

// A connection that the loop does not write to itself is not over before all of its output has been passed
// on: the process may end then.
func TestEndIsNotBeforeAllHasPassed(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		near, far := net.Pipe()
		defer far.Close()
		peer := &endedPeer{Conn: near}
		f := &farewell{closed: make(chan error, 1)}
		got := make(chan int64, 1)
		l.Post(func() { f.conn, _ = l.Add(peer, f) })
		go func() {
			<-f.closed
			got <- peer.got.Load()
		}()
		select {
		case n := <-got:
			if n != 1<<20 {
				t.Errorf("%d bytes of %d had been passed on", n, 1<<20)
			}
		case <-time.After(patience):
			t.Error("the connection stays")
		}
	})
}
