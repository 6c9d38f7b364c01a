package pipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/scripted"
)

// databases is a Redis with 99 databases, 0 to 98.
type databases struct {
	*rig
	dials int
	open  map[int]int // connections by database
}

func (d *databases) Dial(ctx context.Context, addr string, m cluster.Mode, _ *cluster.Identity) (net.Conn,
	error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dials++
	if m.DB == 99 {
		return nil, cluster.NodeError{
			Addr: addr, Err: &cluster.ModeError{Text: "ERR DB index is out of range"},
		}
	}
	d.open[m.DB]++
	node := &scripted.Node{Answer: func(command string) string {
		if command == "HANG" {
			return "-"
		}
		return fmt.Sprintf("+%d %s\r\n", m.DB, command)
	}}
	here, there := net.Pipe()
	go func() { // ends with the connection
		node.Serve(there)
		d.mu.Lock()
		d.open[m.DB]--
		d.mu.Unlock()
	}()
	return here, nil
}

// connections is how many connections there are, and to how many databases.
func (d *databases) connections() (n, kinds int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, open := range d.open {
		n += open
		if open > 0 {
			kinds++
		}
	}
	return n, kinds
}

func inDatabaseBubble(t *testing.T, test func(d *databases)) {
	synctest.Test(t, func(t *testing.T) {
		d := &databases{rig: newRig(t, Options{}, nil), open: make(map[int]int)}
		d.on(func() {
			d.pool.Close()
			d.pool = New(d.loop, d, Options{Timeout: time.Hour}, &d.stats)
		})
		test(d)
	})
}

// ask sends commands, each a word, in one database, and waits until all is quiet.
func (d *databases) ask(db int, to Receiver, words ...string) {
	d.on(func() {
		for i, word := range words {
			d.pool.Send(&Request{Mode: Mode{Proto: 2, DB: db}, Bytes: command(word), To: to, Tag: uint32(i)})
		}
	})
	synctest.Wait()
}

// Each database has a connection of its own. If the upstream does not have a database, that is an error at
// once, in its words; later it may have it.
func TestDatabases(t *testing.T) {
	inDatabaseBubble(t, func(d *databases) {
		var k keeper
		for range 2 {
			d.ask(0, &k, "A")
			d.ask(3, &k, "B", "C")
			d.ask(7, &k, "D")
		}
		k.want(d.t, "replies", `0 "+0 A\r\n"`, `0 "+3 B\r\n"`, `1 "+3 C\r\n"`, `0 "+7 D\r\n"`,
			`0 "+0 A\r\n"`, `0 "+3 B\r\n"`, `1 "+3 C\r\n"`, `0 "+7 D\r\n"`)
		if n, kinds := d.connections(); n != 3 || kinds != 3 {
			d.t.Errorf("%d connections to %d databases", n, kinds)
		}
		var f failures
		began := time.Now()
		d.ask(99, &f, "E", "F")
		if len(f.errs) != 2 || f.errs[0].Error() != "ERR DB index is out of range" ||
			!errors.Is(f.errs[1], cluster.ErrUnavailable) || time.Since(began) > 0 {
			d.t.Errorf("%v after %v", f.errs, time.Since(began))
		}
		d.on(func() {
			for db, want := range map[int]bool{0: true, 3: true, 7: true, 8: false, 99: false} {
				if got := d.pool.Reaches(Mode{Proto: 3, DB: db}); got != want {
					d.t.Errorf("database %d: reached %v", db, got)
				}
			}
		})
	})
}

// Connections that are not used are closed, except to database 0; those with requests stay.
func TestDatabasesIdle(t *testing.T) {
	inDatabaseBubble(t, func(d *databases) {
		var k keeper
		d.ask(0, &k, "A")
		d.ask(3, &k, "B")
		d.ask(7, &k, "HANG")
		time.Sleep(sideIdle / 2)
		d.ask(4, &k, "C")
		time.Sleep(sideIdle/2 + 2*patrol)
		if n, kinds := d.connections(); n != 3 || d.open[3] != 0 {
			d.t.Errorf("%d connections to %d databases: %v", n, kinds, d.open)
		}
		k.heard = nil
		d.ask(3, &k, "D")
		k.want(d.t, "again", `0 "+3 D\r\n"`)
		time.Sleep(2 * sideIdle)
		if n, _ := d.connections(); n != 2 || d.open[7] != 1 {
			d.t.Errorf("%d connections: %v", n, d.open)
		}
		if got := fmt.Sprint(d.refreshes); got != "0" {
			d.t.Errorf("the topology was asked for anew %s times", got)
		}
	})
}

// However many databases a client goes through, it leaves few connections behind; those
// that owe replies are never closed for others.
func TestDatabasesAreBounded(t *testing.T) {
	inDatabaseBubble(t, func(d *databases) {
		var busy, k keeper
		for db := 1; db <= 10; db++ {
			d.ask(db, &busy, "HANG")
		}
		for round := range 3 {
			for db := 11; db < 1000; db++ {
				if db == 99 {
					continue
				}
				d.ask(db, &k, "A")
				if n, _ := d.connections(); n > maxDatabases+1 {
					d.t.Fatalf("round %d, database %d: %d connections", round, db, n)
				}
			}
		}
		if len(busy.heard) != 0 {
			d.t.Errorf("those who wait heard %s", strings.Join(busy.heard, ", "))
		}
		if len(k.heard) != 3*(1000-12) {
			d.t.Errorf("%d replies", len(k.heard))
		}
	})
}

// A connection that was closed because nobody used it is made once more, and stays.
func TestForgottenIsMadeAnew(t *testing.T) {
	inDatabaseBubble(t, func(d *databases) {
		var k keeper
		d.ask(3, &k, "A")
		time.Sleep(2 * sideIdle)
		d.ask(3, &k, "B")
		d.ask(3, &k, "C")
		if n, _ := d.connections(); n != 1 || d.dials != 2 {
			d.t.Errorf("%d connections, %d dials", n, d.dials)
		}
	})
}
