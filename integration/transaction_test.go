package integration

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counter is a number in Redis that clients raise by one as WATCH lets them: read it, and write what
// it was plus one unless it has changed meanwhile. A second key in the same transaction must stay equal to it.
type counter struct {
	key     string
	done    atomic.Int64 // EXEC said so
	unknown atomic.Int64 // EXEC said that it does not know
	retries atomic.Int64 // EXEC said Null
}

func (n *counter) twin() string { return n.key + ":twin" }

// raise raises the counter once, however many attempts that takes.
func (n *counter) raise(c *conn, pipelined bool) error {
	for {
		read, err := converse(c, pipelined, []string{"WATCH", n.key}, []string{"GET", n.key})
		if err != nil {
			return err
		}
		if read[0].text != "OK" || read[1].isError() {
			return fmt.Errorf("WATCH: %s, GET: %s", read[0], read[1])
		}
		was, _ := strconv.Atoi(read[1].text)
		write, err := converse(c, pipelined, []string{"MULTI"}, []string{"SET", n.key, strconv.Itoa(was + 1)}, []string{"INCR", n.twin()}, []string{"EXEC"})
		if err != nil {
			return err
		}
		switch exec := write[3]; {
		case write[0].text != "OK" || write[1].text != "QUEUED" || write[2].text != "QUEUED":
			return fmt.Errorf("%s", write)
		case len(exec.elems) == 2 && exec.elems[0].text == "OK" && exec.elems[1].int() == int64(was+1):
			n.done.Add(1)
			return nil
		case exec.isError() && strings.Contains(exec.text, "may or may not have run"):
			n.unknown.Add(1)
			return nil
		case exec.String() == "(nil)":
			n.retries.Add(1)
		default:
			return fmt.Errorf("EXEC: %s, for %d", exec, was+1)
		}
	}
}

// converse sends commands, in one write or one after the other, and returns the replies.
func converse(c *conn, pipelined bool, commands ...[]string) (replies []reply, err error) {
	if pipelined {
		var all []byte
		for _, args := range commands {
			all = append(all, encode(args...)...)
		}
		if _, err := c.Write(all); err != nil {
			return nil, err
		}
	}
	for _, args := range commands {
		if !pipelined {
			if err := c.send(args...); err != nil {
				return nil, err
			}
		}
		v, err := c.receive(2 * patience)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", args, err)
		}
		replies = append(replies, v)
	}
	return replies, nil
}

// raiseAll has clients raise counters over several proxies until times is used up or end is closed.
func raiseAll(t *testing.T, addrs []string, clients, times int, end <-chan struct{}, counters ...*counter) {
	t.Helper()
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			c, err := dial(addrs[client%len(addrs)])
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for i := range times {
				select {
				case <-end:
					return
				default:
				}
				if err := counters[(client+i)%len(counters)].raise(c, i%2 == 0); err != nil {
					t.Errorf("client %d: %v", client, err)
					return
				}
			}
		})
	}
	group.Wait()
}

// check compares the counters with what their clients were told.
func (n *counter) check(t *testing.T, addr string) {
	t.Helper()
	c := connect(t, addr)
	value, twin := c.must(t, "GET", n.key), c.must(t, "GET", n.twin())
	got, _ := strconv.ParseInt(value.text, 10, 64)
	if done, unknown := n.done.Load(), n.unknown.Load(); got < done || got > done+unknown || twin.text != value.text {
		t.Errorf("%s is %s, its twin %s, after %d times and %d that are unknown", n.key, value, twin, done, unknown)
	}
}

// TestWatchedCounter: twenty clients of two proxies raise one number, and nobody's change is lost.
func TestWatchedCounter(t *testing.T) {
	t.Parallel()
	upstream := startCluster(t, 3, 0).addrs()
	a, b := startProxy(t, "--upstream", upstream), startProxy(t, "--upstream", upstream, "--loops", "2")
	n := &counter{key: "{n}"}
	raiseAll(t, []string{a.addr, b.addr}, 20, dose(25, 500), nil, n)
	n.check(t, a.addr)
	if want := int64(20 * dose(25, 500)); n.done.Load() != want {
		t.Errorf("%d times, want %d", n.done.Load(), want)
	}
	if n.retries.Load() == 0 {
		t.Error("no client was in another's way: the test did not test")
	}
}

// TestTransactionsDuringMigration: transactions on a slot that moves to and fro. None is lost, none is run twice,
// none is run in part, and no redirect reaches a client.
func TestTransactionsDuringMigration(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 0)
	a, b := startProxy(t, "--upstream", c.addrs()), startProxy(t, "--upstream", c.addrs())
	counters := []*counter{{key: "{moving}:a"}, {key: "{moving}:b"}, {key: "{staying}"}}
	end := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { raiseAll(t, []string{a.addr, b.addr}, 6, 1e9, end, counters...) })
	var plain atomic.Int64
	group.Go(func() { // and without WATCH, which must always succeed
		p := connect(t, a.addr)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			replies, err := converse(p, i%2 == 0, []string{"MULTI"}, []string{"INCR", "{moving}:plain"}, []string{"INCR", "{moving}:plain2"}, []string{"EXEC"})
			if err != nil {
				t.Error(err)
				return
			}
			if got, want := replies[3].String(), fmt.Sprintf("[(integer) %d, (integer) %d]", i+1, i+1); got != want {
				t.Errorf("EXEC: %s, want %s", got, want)
				return
			}
			plain.Add(1)
		}
	})
	time.Sleep(200 * time.Millisecond)
	slot, at := c.slotOf(t, "moving"), c.masterOf(t, "moving")
	for i := range dose(4, 30) {
		to := c.nodes[(slices.Index(c.nodes, at)+1+i%2)%3]
		c.migrate(t, slot, at, to, 20*time.Millisecond)
		at = to
		time.Sleep(100 * time.Millisecond)
	}
	close(end)
	group.Wait()
	for _, n := range counters {
		n.check(t, b.addr)
		if n.unknown.Load() > 0 || n.done.Load() == 0 {
			t.Errorf("%s: %d times, %d unknown", n.key, n.done.Load(), n.unknown.Load())
		}
	}
	connect(t, b.addr).want(t, quote(strconv.FormatInt(plain.Load(), 10)), "GET", "{moving}:plain")
}

// TestTransactionAcrossAMigration: one transaction each, whose slot moves between two of its commands.
func TestTransactionAcrossAMigration(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 0)
	p := startProxy(t, "--upstream", c.addrs())
	slot, at := c.slotOf(t, "x"), c.masterOf(t, "x")
	move := func() {
		to := c.nodes[(slices.Index(c.nodes, at)+1)%3]
		c.migrate(t, slot, at, to, 0)
		at = to
	}
	a, w, s := connect(t, p.addr), connect(t, p.addr), connect(t, p.addr)
	a.want(t, "OK", "SET", "{x}1", "1")
	s.want(t, quote("e0e1f9fabfc9d4800c877a703b823ac0578ff8db"), "SCRIPT", "LOAD", "return 1")
	for _, n := range c.nodes {
		n.do(t, "SCRIPT", "FLUSH")
	}
	for _, before := range []string{"MULTI", "SET", "EXEC"} {
		for _, step := range [][]string{{"MULTI"}, {"SET", "{x}1", "2"}, {"INCR", "{x}2"}, {"EXEC"}} {
			if step[0] == before {
				move()
			}
			got := a.call(t, step...)
			if step[0] == "EXEC" && (len(got.elems) != 2 || got.elems[0].text != "OK") {
				t.Errorf("moved before %s: EXEC: %s", before, got)
			}
		}
	}
	for _, before := range []string{"MULTI", "INCR", "EXEC"} {
		for _, step := range [][]string{{"WATCH", "{x}1"}, {"MULTI"}, {"INCR", "{x}1"}, {"EXEC"}} {
			if step[0] == before {
				move()
			}
			if got := w.call(t, step...).String(); step[0] == "EXEC" && got != "(nil)" {
				t.Errorf("moved before %s: EXEC: %s", before, got)
			}
		}
	}
	a.want(t, quote("2"), "GET", "{x}1")
	a.want(t, quote("3"), "GET", "{x}2")
	s.want(t, "OK", "MULTI")
	s.want(t, "QUEUED", "EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "1", "{x}1")
	move()
	s.want(t, "[(integer) 1]", "EXEC")
}

// TestTransactionsDuringFailover: fail-overs on request, which lose nothing, and then a master that is killed.
func TestTransactionsDuringFailover(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 1)
	p := startProxy(t, "--upstream", c.addrs())
	counters := []*counter{{key: "{failing}"}, {key: "{staying}"}}
	end := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { raiseAll(t, []string{p.addr}, 6, 1e9, end, counters...) })
	plain, watching := connect(t, p.addr), connect(t, p.addr)
	begin := func() {
		plain.want(t, "OK", "MULTI")
		plain.want(t, "QUEUED", "SET", "{failing}:plain", "1")
		watching.want(t, "OK", "WATCH", "{failing}:watched")
		watching.want(t, "OK", "MULTI")
		watching.want(t, "QUEUED", "SET", "{failing}:watched", "1")
	}
	finish := func() {
		plain.want(t, "[OK]", "EXEC")
		watching.want(t, "(nil)", "EXEC")
		watching.want(t, "(nil)", "GET", "{failing}:watched")
	}
	master := c.masterOf(t, "failing")
	for range 2 {
		begin()
		replica := c.replicasOf(t, master)[0]
		replica.do(t, "CLUSTER", "FAILOVER")
		eventually(t, 2*patience, "the replica is master", func() bool { return replica.info(t, "replication", "role") == "master" })
		finish()
		eventually(t, 2*patience, "the other is its replica", func() bool { return len(c.replicasOf(t, replica)) == 1 })
		c.settled(t, 3)
		master = replica
	}
	close(end)
	group.Wait()
	for _, n := range counters {
		n.check(t, p.addr)
	}
	begin()
	master.kill()
	finish()
}

// TestTransactionBytes compares what a bare Redis says of each command between MULTI and EXEC with what
// it says through the proxy, in both protocols.
func TestTransactionBytes(t *testing.T) {
	t.Parallel()
	bare, through := startRedis(t).addr, startProxy(t, "--upstream", startRedis(t).addr).addr
	for _, proto := range []string{"2", "3"} {
		want, got := speak(t, bare, proto), speak(t, through, proto)
		for _, line := range dataTalk(t).lines {
			args := line.args
			if slices.Contains([]string{"HELLO", "QUIT", "CONFIG", "RESET"}, args[0]) || slices.Contains(args, "GETKEYS") { // see the transcripts
				continue
			}
			for _, command := range [][]string{{"MULTI"}, args, {"SET", "last", "1"}, {"EXEC"}} {
				if a, b := want.call(t, command...), got.call(t, command...); !bytes.Equal(a.raw, b.raw) {
					t.Errorf("RESP%s %s of %q:\n got %.300q\nwant %.300q", proto, command[0], args, b.raw, a.raw)
				}
			}
		}
	}
}

// dataTalk is the conversation of commands on data.
func dataTalk(t *testing.T) talk {
	t.Helper()
	all := readTalks(t)
	i := slices.IndexFunc(all, func(k talk) bool { return strings.HasPrefix(k.name, "data") })
	return all[i]
}
