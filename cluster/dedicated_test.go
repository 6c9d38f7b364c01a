package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/resp"
)

// dedicated are connections to the scripted nodes of a rig.
func (r *rig) dedicated(o DedicatedOptions) *Dedicated {
	d := NewDedicated(r, o, &r.stats)
	r.t.Cleanup(func() {
		d.Close()
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.open) > 0 {
			r.t.Errorf("%d connections are open after Close", len(d.open))
		}
	})
	return d
}

func (d *Dedicated) count(addr string) (idle, users int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.nodes[addr]; b != nil {
		return len(b.idle), b.users
	}
	return 0, 0
}

// converse runs one command on c.
func converse(t *testing.T, c *Conn, words ...string) string {
	t.Helper()
	if _, err := c.Write(resp.AppendCommandStrings(nil, words...)); err != nil {
		t.Fatal(err)
	}
	reply, err := c.Reply()
	if err != nil {
		t.Fatal(err)
	}
	return string(reply)
}

// A connection is nobody else's while it is lent out, is used again later, and is closed
// when nobody needs it.
func TestDedicatedAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, PipeOptions{}, map[string]*script{"a:1": {answer: func(c string) string { return "$" + fmt.Sprint(len(c)) + "\r\n" + c + "\r\n" }}})
		d := r.dedicated(DedicatedOptions{Idle: 30 * time.Second})
		borrow := func() *Conn {
			c, err := d.Borrow(t.Context(), "a:1")
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		one, two := borrow(), borrow()
		if one == two || one.Reused {
			t.Fatal("two have the same connection")
		}
		if got := converse(t, one, "PING"); got != "$4\r\nPING\r\n" {
			t.Errorf("%q", got)
		}
		long := strings.Repeat("x", 100_000)
		if got := converse(t, two, "ECHO", long); got != fmt.Sprintf("$100005\r\nECHO %s\r\n", long) {
			t.Errorf("%d bytes", len(got))
		}
		one.GiveBack()
		time.Sleep(time.Second)
		two.Discard()
		if again := borrow(); again != one || !again.Reused {
			t.Error("the connection is not used again")
		}
		one.GiveBack()
		connects := func() (uint64, int64) { n := r.stats.Nodes()[0]; return n.Connects, n.Connections }
		if n, up := connects(); n != 2 || up != 1 {
			t.Errorf("%d connects, %d connections", n, up)
		}
		time.Sleep(29 * time.Second)
		if idle, _ := d.count("a:1"); idle != 1 {
			t.Errorf("%d idle after 29 s", idle)
		}
		// One that is younger stays longer.
		three, four := borrow(), borrow()
		four.GiveBack()
		time.Sleep(20 * time.Second)
		three.GiveBack()
		time.Sleep(11 * time.Second)
		if idle, _ := d.count("a:1"); idle != 1 {
			t.Errorf("%d idle, of which one is 11 s old", idle)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		d.mu.Lock()
		defer d.mu.Unlock()
		if _, up := connects(); up != 0 || len(d.nodes) != 0 {
			t.Errorf("%d connections and %d nodes are left when nobody needs them", up, len(d.nodes))
		}
	})
}

// A bounded number is lent out; who comes later waits, for as long as its context
// allows.
func TestDedicatedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, PipeOptions{}, map[string]*script{"a:1": {answer: ok}, "b:1": {answer: ok}})
		d := r.dedicated(DedicatedOptions{Limit: 3})
		var lent []*Conn
		for range 3 {
			c, err := d.Borrow(t.Context(), "a:1")
			if err != nil {
				t.Fatal(err)
			}
			lent = append(lent, c)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := d.Borrow(ctx, "a:1"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if c, err := d.Borrow(t.Context(), "b:1"); err != nil {
			t.Errorf("another node: %v", err)
		} else {
			c.GiveBack()
		}

		// First come, first served.
		order := make(chan int, 5)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				c, err := d.Borrow(t.Context(), "a:1")
				if err != nil {
					t.Error(err)
					return
				}
				order <- i
				c.GiveBack()
			})
			synctest.Wait()
		}
		if len(order) > 0 {
			t.Error("more than 3 are lent out")
		}
		lent[0].Discard()
		wg.Wait()
		for i := range 5 {
			if got := <-order; got != i {
				t.Errorf("number %d came as number %d", got, i)
			}
		}
		if r.stats.node("a:1").up.Load() > 3 {
			t.Error("more than 3 connections")
		}

		// Close ends those that wait, and those that are lent out.
		failed := make(chan error, 1)
		c, _ := d.Borrow(t.Context(), "a:1")
		go func() {
			_, err := d.Borrow(t.Context(), "a:1")
			failed <- err
		}()
		synctest.Wait()
		d.Close()
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := c.Reply(); err == nil {
			t.Error("a connection that is lent out works after Close")
		}
		for _, c := range append(lent[1:], c) {
			c.GiveBack()
		}
		if _, err := d.Borrow(t.Context(), "b:1"); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// A node that says more than it was asked for has its connection closed.
func TestDedicatedThatSaysTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, PipeOptions{}, map[string]*script{"a:1": {answer: func(string) string { return "+OK\r\n+MORE\r\n" }}})
		d := r.dedicated(DedicatedOptions{})
		c, err := d.Borrow(t.Context(), "a:1")
		if err != nil {
			t.Fatal(err)
		}
		converse(t, c, "PING")
		c.GiveBack()
		if idle, users := d.count("a:1"); idle+users != 0 {
			t.Errorf("%d idle, %d lent out", idle, users)
		}
	})
}
