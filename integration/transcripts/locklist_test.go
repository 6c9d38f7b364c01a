package transcripts

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// LIST costs the servers what the locks cost that are held, however many keys of others there are. It shows
// those that were taken through another proxy, too. R21
func TestListBesideManyKeys(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() []*rig.Server{
		"single":  func() []*rig.Server { return []*rig.Server{rig.StartRedis(t)} },
		"cluster": func() []*rig.Server { return rig.StartCluster(t, 3, 0).Nodes },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listBesideManyKeys(t, start())
		})
	}
}

func listBesideManyKeys(t *testing.T, nodes []*rig.Server) {
	const (
		foreign, held = 2_000, 50
		most          = 2 * held // scripts, at all nodes; other commands are also the watching of nodes
	)
	var lists [2]*rig.Conn
	for i := range lists {
		lists[i] = rig.Connect(t, rig.StartProxy(t, "--upstream", nodes[0].Addr).Addr)
	}
	setMany(t, lists[0], foreign)
	for i := range held {
		lists[i%2].Must(t, "LOCK", fmt.Sprintf("job%02d", i), "TOKEN", "t", "PX", "600000")
	}
	lists[0].Must(t, "LOCK", "other", "PX", "600000")
	// At once whatever this proxy has granted; what the other one has, within half a second.
	if n := len(lists[0].Must(t, "LOCKCTL", "LIST", "MATCH", "job*").Elems); n < held/2 {
		t.Errorf("%d locks of %d are listed at once by the proxy that granted them", n, held/2)
	}
	for i, c := range lists {
		for until := time.Now().Add(rig.Patience); ; time.Sleep(50 * time.Millisecond) {
			n := len(c.Must(t, "LOCKCTL", "LIST", "MATCH", "job*").Elems)
			if n == held {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("proxy %d lists %d locks of %d", i, n, held)
			}
		}
	}
	before := calls(t, nodes, "evalsha")
	lists[1].Must(t, "LOCKCTL", "LIST", "MATCH", "job*")
	if n := calls(t, nodes, "evalsha") - before; n > most || n == 0 {
		t.Errorf("LIST of %d locks took %d scripts of the servers", held, n)
	} else {
		t.Logf("LIST of %d locks: %d scripts", held, n)
	}
	if n := calls(t, nodes, "scan") + calls(t, nodes, "keys") + calls(t, nodes, "get"); n > 0 {
		t.Errorf("all keys were looked through, in %d commands", n)
	}
	if n := len(lists[0].Must(t, "LOCKCTL", "LIST", "SCAN", "COUNT", "1000").Elems); n != held+1 {
		t.Errorf("SCAN finds %d locks, want %d", n, held+1)
	}
	if calls(t, nodes, "scan") == 0 {
		t.Error("SCAN looks through nothing")
	}
	for i := range held {
		lists[1].Must(t, "UNLOCK", fmt.Sprintf("job%02d", i), "t")
	}
	if got := lists[0].Must(t, "LOCKCTL", "LIST", "MATCH", "job*").String(); got != "[]" {
		t.Errorf("%s is listed though it is free", got)
	}
}

// setMany makes n keys.
func setMany(t *testing.T, c *rig.Conn, n int) {
	const batch = 1000
	for i := range n / batch {
		args := []string{"MSET"}
		for k := range batch {
			args = append(args, fmt.Sprintf("foreign:%d:%d", i, k), "x")
		}
		c.Must(t, args...)
	}
}

// calls is how often nodes have run a command, in scripts too.
func calls(t *testing.T, nodes []*rig.Server, command string) (n int) {
	for _, node := range nodes {
		for line := range strings.Lines(node.Do(t, "INFO", "commandstats").Text) {
			name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
			if number, _, found := strings.Cut(rest, ","); found && name == command {
				k, _ := strconv.Atoi(number)
				n += k
			}
		}
	}
	return n
}

// A proxy whose user may not write the index looks through all keys, and says so in its log.
func TestListWithoutIndex(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	s.Do(t, "ACL", "SETUSER", "p", "on", ">x", "~*", "&*", "+@all", "-zadd")
	p := rig.StartProxy(t, "--upstream", s.Addr, "--upstream-user", "p", "--upstream-password", "x")
	c := rig.Connect(t, p.Addr)
	c.Must(t, "LOCK", "job", "TOKEN", "t", "PX", "600000")
	if got := len(c.Must(t, "LOCKCTL", "LIST").Elems); got != 1 {
		t.Errorf("%d locks", got)
	}
	p.Logged(t, "LOCKCTL LIST looks through all keys.*zadd")
	other := rig.Connect(t, rig.StartProxy(t, "--upstream", s.Addr).Addr)
	if got := len(other.Must(t, "LOCKCTL", "LIST", "SCAN").Elems); got != 1 {
		t.Errorf("SCAN finds %d locks", got)
	}
	s.Do(t, "ACL", "SETUSER", "p", "-zrange")
	if got := len(c.Must(t, "LOCKCTL", "LIST").Elems); got != 1 {
		t.Errorf("%d locks", got)
	}
}

// A proxy that ends leaves word of the locks that its clients hold still.
func TestListAfterTheProxy(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	p := rig.StartProxy(t, "--upstream", s.Addr)
	rig.Connect(t, p.Addr).Must(t, "LOCK", "job", "TOKEN", "t", "PX", "600000")
	p.Drain(t)
	c := rig.Connect(t, rig.StartProxy(t, "--upstream", s.Addr).Addr)
	if got := len(c.Must(t, "LOCKCTL", "LIST").Elems); got != 1 {
		t.Errorf("%d locks", got)
	}
}
