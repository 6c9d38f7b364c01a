package loop

import (
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// The runtime is not woken for a loop that is busy, and is for one that sleeps: no event is lost, whatever
// the moment between work and sleep in which it comes.
func TestBusyLoopWakesNobody(t *testing.T) {
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	e := l.poller.(*epoll)
	unarmed, fallsAsleep := 0, 0
	armed := false
	l.Watch(func() {
		if !e.armed {
			unarmed++
		}
		if e.armed && !armed {
			fallsAsleep++
		}
		armed = e.armed
	})
	go l.Run()
	flood := dial(t, l, &echo{})
	defer flood.Close()
	quiet := dial(t, l, &echo{})
	defer quiet.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	answers := func(nc net.Conn, n int) {
		nc.SetDeadline(time.Now().Add(patience))
		b := make([]byte, n)
		if _, err := nc.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(nc, b); err != nil {
			t.Fatalf("an event is lost: %v", err)
		}
	}
	for range 100 {
		answers(flood, 1<<20)
		for range 5 {
			for until := time.Now().Add(time.Duration(rng.IntN(30000))); time.Now().Before(until); {
			}
			answers(quiet, 1)
		}
	}
	l.Close()
	if unarmed == 0 || fallsAsleep == 0 {
		t.Errorf("%d rounds were not armed, and the loop was armed anew %d times, want some of both", unarmed,
			fallsAsleep)
	}
}

// posting posts while it reads, and sends what tells whether that rang the bell.
type posting struct {
	echo
	loop *Loop
	rang chan bool
}

func (h *posting) Read(buf []byte) int {
	h.loop.Post(func() {})
	var count [8]byte
	n, _ := rawRead(h.loop.poller.(*epoll).bell, count[:])
	h.rang <- n > 0
	return len(buf)
}

// What is posted while a loop serves its sockets runs in the same round, and needs no bell.
func TestNoBellForWhoeverIsAwake(t *testing.T) {
	l := native(t)
	h := &posting{loop: l, rang: make(chan bool, 1)}
	nc := dialHandler(t, l, &h.echo, h)
	defer nc.Close()
	if _, err := nc.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	if <-h.rang {
		t.Error("the loop rang its own bell")
	}
}
