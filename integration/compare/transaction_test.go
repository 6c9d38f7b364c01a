package compare

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

	"lockproxy/integration/rig"
)

// counter is a number in Redis that clients raise by one as WATCH lets them: read it, and write what
// it was plus one unless it has changed meanwhile. A second key in the same transaction must stay equal to
// it.
type counter struct {
	key     string
	done    atomic.Int64 // EXEC said so
	unknown atomic.Int64 // EXEC said that it does not know
	retries atomic.Int64 // EXEC said Null
}

func (n *counter) beside() string { return n.key + ":beside" }

// raise raises the counter once, however many attempts that takes.
func (n *counter) raise(c *rig.Conn, pipelined bool) error {
	for {
		read, err := converse(c, pipelined, []string{"WATCH", n.key}, []string{"GET", n.key})
		if err != nil {
			return err
		}
		if read[0].Text != "OK" || read[1].IsError() {
			return fmt.Errorf("WATCH: %s, GET: %s", read[0], read[1])
		}
		was, _ := strconv.Atoi(read[1].Text)
		write, err := converse(c, pipelined, []string{"MULTI"}, []string{"SET", n.key, strconv.Itoa(was + 1)},
			[]string{"INCR", n.beside()}, []string{"EXEC"})
		if err != nil {
			return err
		}
		switch exec := write[3]; {
		case write[0].Text != "OK" || write[1].Text != "QUEUED" || write[2].Text != "QUEUED":
			return fmt.Errorf("%s", write)
		case len(exec.Elems) == 2 && exec.Elems[0].Text == "OK" && exec.Elems[1].Int() == int64(was+1):
			n.done.Add(1)
			return nil
		case exec.IsError() && strings.Contains(exec.Text, "may or may not have run"):
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
func converse(c *rig.Conn, pipelined bool, commands ...[]string) (replies []rig.Reply, err error) {
	if pipelined {
		var all []byte
		for _, args := range commands {
			all = append(all, rig.Encode(args...)...)
		}
		if _, err := c.Write(all); err != nil {
			return nil, err
		}
	}
	for _, args := range commands {
		if !pipelined {
			if err := c.Send(args...); err != nil {
				return nil, err
			}
		}
		v, err := c.Receive(2 * rig.Patience)
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
			c, err := rig.Dial(addrs[client%len(addrs)])
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
	c := rig.Connect(t, addr)
	value, beside := c.Must(t, "GET", n.key), c.Must(t, "GET", n.beside())
	got, _ := strconv.ParseInt(value.Text, 10, 64)
	if done, unknown := n.done.Load(), n.unknown.Load(); got < done || got > done+unknown ||
		beside.Text != value.Text {
		t.Errorf("%s is %s, the key beside it %s, after %d times and %d that are unknown", n.key, value,
			beside, done, unknown)
	}
}

// TestWatchedCounter: twenty clients of two proxies raise one number, and nobody's change is lost.
func TestWatchedCounter(t *testing.T) {
	t.Parallel()
	upstream := rig.StartCluster(t, 3, 0).Addrs()
	a := rig.StartProxy(t, "--upstream", upstream)
	b := rig.StartProxy(t, "--upstream", upstream, "--loops", "2")
	n := &counter{key: "{n}"}
	raiseAll(t, []string{a.Addr, b.Addr}, 20, rig.Dose(25, 500), nil, n)
	n.check(t, a.Addr)
	if want := int64(20 * rig.Dose(25, 500)); n.done.Load() != want {
		t.Errorf("%d times, want %d", n.done.Load(), want)
	}
	if n.retries.Load() == 0 {
		t.Error("no client was in another's way: the test did not test")
	}
}

// TestTransactionsDuringMigration: transactions on a slot that moves to and fro. None is lost, none is run
// twice, none is run in part, and no redirect reaches a client.
func TestTransactionsDuringMigration(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0)
	a, b := rig.StartProxy(t, "--upstream", c.Addrs()), rig.StartProxy(t, "--upstream", c.Addrs())
	counters := []*counter{{key: "{moving}:a"}, {key: "{moving}:b"}, {key: "{staying}"}}
	end := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { raiseAll(t, []string{a.Addr, b.Addr}, 6, 1e9, end, counters...) })
	var plain atomic.Int64
	group.Go(func() { // and without WATCH, which must always succeed
		p := rig.Connect(t, a.Addr)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			replies, err := converse(p, i%2 == 0, []string{"MULTI"}, []string{"INCR", "{moving}:plain"},
				[]string{"INCR", "{moving}:plain2"}, []string{"EXEC"})
			if err != nil {
				t.Error(err)
				return
			}
			want := fmt.Sprintf("[(integer) %d, (integer) %d]", i+1, i+1)
			if got := replies[3].String(); got != want {
				t.Errorf("EXEC: %s, want %s", got, want)
				return
			}
			plain.Add(1)
		}
	})
	time.Sleep(200 * time.Millisecond)
	slot, at := c.SlotOf(t, "moving"), c.MasterOf(t, "moving")
	for i := range rig.Dose(4, 30) {
		to := c.Nodes[(slices.Index(c.Nodes, at)+1+i%2)%3]
		c.Migrate(t, slot, at, to, 20*time.Millisecond)
		at = to
		time.Sleep(100 * time.Millisecond)
	}
	for _, n := range counters {
		rig.Eventually(t, 2*rig.Patience, n.key+" is raised", func() bool { return n.done.Load() > 0 })
	}
	close(end)
	group.Wait()
	for _, n := range counters {
		n.check(t, b.Addr)
		if n.unknown.Load() > 0 {
			t.Errorf("%s: %d times, %d unknown", n.key, n.done.Load(), n.unknown.Load())
		}
	}
	rig.Connect(t, b.Addr).Want(t, rig.Quote(strconv.FormatInt(plain.Load(), 10)), "GET", "{moving}:plain")
}

// TestTransactionAcrossAMigration: one transaction each, whose slot moves between two of its commands.
func TestTransactionAcrossAMigration(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0)
	p := rig.StartProxy(t, "--upstream", c.Addrs())
	slot, at := c.SlotOf(t, "x"), c.MasterOf(t, "x")
	move := func() {
		to := c.Nodes[(slices.Index(c.Nodes, at)+1)%3]
		c.Agreed(t)
		c.Migrate(t, slot, at, to, 0)
		at = to
	}
	a, w, s := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	a.Want(t, "OK", "SET", "{x}1", "1")
	s.Want(t, rig.Quote("e0e1f9fabfc9d4800c877a703b823ac0578ff8db"), "SCRIPT", "LOAD", "return 1")
	for _, n := range c.Nodes {
		n.Do(t, "SCRIPT", "FLUSH")
	}
	for _, before := range []string{"MULTI", "SET", "EXEC"} {
		for _, step := range [][]string{{"MULTI"}, {"SET", "{x}1", "2"}, {"INCR", "{x}2"}, {"EXEC"}} {
			if step[0] == before {
				move()
			}
			got := a.Call(t, step...)
			if step[0] == "EXEC" && (len(got.Elems) != 2 || got.Elems[0].Text != "OK") {
				t.Errorf("moved before %s: EXEC: %s", before, got)
			}
		}
	}
	for _, before := range []string{"MULTI", "INCR", "EXEC"} {
		for _, step := range [][]string{{"WATCH", "{x}1"}, {"MULTI"}, {"INCR", "{x}1"}, {"EXEC"}} {
			if step[0] == before {
				move()
			}
			if got := w.Call(t, step...).String(); step[0] == "EXEC" && got != "(nil)" {
				t.Errorf("moved before %s: EXEC: %s", before, got)
			}
		}
	}
	a.Want(t, rig.Quote("2"), "GET", "{x}1")
	a.Want(t, rig.Quote("3"), "GET", "{x}2")
	s.Want(t, "OK", "MULTI")
	s.Want(t, "QUEUED", "EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "1", "{x}1")
	move()
	s.Want(t, "[(integer) 1]", "EXEC")
}

// TestTransactionsDuringFailover: fail-overs on request, which lose nothing, and then a master that is
// killed.
func TestTransactionsDuringFailover(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 1)
	// a busy machine takes its time to promote a replica
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", "2m")
	counters := []*counter{{key: "{failing}"}, {key: "{staying}"}}
	end := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { raiseAll(t, []string{p.Addr}, 6, 1e9, end, counters...) })
	plain, watching := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	begin := func() {
		plain.Want(t, "OK", "MULTI")
		plain.Want(t, "QUEUED", "SET", "{failing}:plain", "1")
		watching.Want(t, "OK", "WATCH", "{failing}:watched")
		watching.Want(t, "OK", "MULTI")
		watching.Want(t, "QUEUED", "SET", "{failing}:watched", "1")
	}
	finish := func() {
		plain.Want(t, "[OK]", "EXEC")
		watching.Want(t, "(nil)", "EXEC")
		watching.Want(t, "(nil)", "GET", "{failing}:watched")
	}
	master := c.MasterOf(t, "failing")
	for range 2 {
		begin()
		replica := c.ReplicasOf(t, master)[0]
		replica.Promote(t)
		finish()
		rig.Eventually(t, 2*rig.Patience, "the other is its replica",
			func() bool { return len(c.ReplicasOf(t, replica)) == 1 })
		c.Settled(t, 3)
		master = replica
	}
	close(end)
	group.Wait()
	for _, n := range counters {
		n.check(t, p.Addr)
	}
	begin()
	master.Kill()
	c.DeadAfter("2000")
	finish()
}

// TestTransactionBytes compares what a bare Redis says of each command between MULTI and EXEC with what
// it says through the proxy, in both protocols.
func TestTransactionBytes(t *testing.T) {
	t.Parallel()
	bare, through := rig.StartRedis(t).Addr, rig.StartProxy(t, "--upstream", rig.StartRedis(t).Addr).Addr
	for _, proto := range []string{"2", "3"} {
		want, got := speak(t, bare, proto), speak(t, through, proto)
		for _, line := range dataTalk(t).lines {
			args := line.args
			if slices.Contains([]string{"HELLO", "QUIT", "CONFIG", "RESET"}, args[0]) ||
				slices.Contains(args, "GETKEYS") { // see the transcripts
				continue
			}
			for _, command := range [][]string{{"MULTI"}, args, {"SET", "last", "1"}, {"EXEC"}} {
				if a, b := want.Call(t, command...), got.Call(t, command...); !bytes.Equal(a.Raw, b.Raw) {
					t.Errorf("RESP%s %s of %q:\n got %.300q\nwant %.300q", proto, command[0],
						args, b.Raw, a.Raw)
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
