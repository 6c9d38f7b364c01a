package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// scanKeys is how many keys stay: each full scan must see every one of them, at least once.
const scanKeys = 4000

// scanner goes through all keys again and again until end is closed, each page through another of the proxies.
type scanner struct {
	addrs []string
	args  []string // behind the cursor
	stay  map[string]bool

	scans, pages, most int // done; of them all; of the longest
	failed             int // replies with an error
}

func (s *scanner) run(seed uint64, end <-chan struct{}) error {
	var conns []*conn
	for _, addr := range s.addrs {
		c, err := dial(addr)
		if err != nil {
			return err
		}
		defer c.Close()
		conns = append(conns, c)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for {
		select {
		case <-end:
			if s.scans > 0 {
				return nil
			}
		default:
		}
		if err := s.scan(conns, random); err != nil {
			return err
		}
	}
}

// scan is one full scan.
func (s *scanner) scan(conns []*conn, random *rand.Rand) error {
	seen, cursor, pages := make(map[string]bool), "0", 0
	for {
		v, err := conns[random.IntN(len(conns))].do(append([]string{"SCAN", cursor}, s.args...)...)
		if err != nil {
			return err
		}
		if v.isError() { // asked again, as any client would
			if s.failed++; s.failed > 2000 {
				return fmt.Errorf("SCAN %s: %s", cursor, v)
			}
			time.Sleep(5 * time.Millisecond)
			continue
		}
		for _, key := range v.elems[1].strings() {
			seen[key] = true
		}
		if n, err := strconv.ParseInt(v.elems[0].text, 10, 64); err != nil || n < 0 {
			return fmt.Errorf("cursor %s", v.elems[0])
		}
		if pages++; pages > 60_000 {
			return fmt.Errorf("a scan has taken %d pages", pages)
		}
		if cursor = v.elems[0].text; cursor == "0" {
			break
		}
	}
	s.scans, s.pages, s.most = s.scans+1, s.pages+pages, max(s.most, pages)
	missed := 0
	for key := range s.stay {
		if !seen[key] {
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("scan %d, of %d pages, has not seen %d keys that were there all the time", s.scans, pages, missed)
	}
	return nil
}

// While slots move to and fro, masters change places with their replicas and one is killed, each full scan
// sees every key that is there all the time, through whichever proxy each page is asked for; and it ends.
func TestScanVisitsEachKey(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 1)
	proxies := []string{startProxy(t, "--upstream", c.addrs()).addr, startProxy(t, "--upstream", c.addrs()).addr}
	stay := make(map[string]bool)
	fill := connect(t, proxies[0])
	for i := range scanKeys {
		key := fmt.Sprint("stay:", i)
		if i%4 == 0 {
			key = fmt.Sprintf("{%d}:stay:%d", i%40, i) // slots with many keys
		}
		stay[key] = true
		fill.send("SET", key, "v")
	}
	for range scanKeys {
		if v, err := fill.receive(patience); err != nil || v.isError() {
			t.Fatal(v, err)
		}
	}
	end, scanned := make(chan struct{}), make(chan struct{})
	var group, scans sync.WaitGroup
	scanners := []*scanner{
		{args: []string{"COUNT", "10"}},
		{args: []string{"COUNT", "100"}},
		{args: []string{"COUNT", "37", "MATCH", "*stay:*", "TYPE", "string"}},
		{args: []string{"COUNT", "1000"}},
	}
	for i, s := range scanners {
		s.addrs, s.stay = proxies, stay
		scans.Go(func() {
			if err := s.run(uint64(i), end); err != nil {
				t.Errorf("SCAN %v: %v", s.args, err)
			}
		})
	}
	var passing atomic.Int64
	group.Go(func() { // keys that come and go
		traffic, err := dial(proxies[0])
		if err != nil {
			t.Error(err)
			return
		}
		defer traffic.Close()
		for i := 0; ; i++ {
			select {
			case <-scanned:
				return
			default:
			}
			passing.Add(1)
			traffic.do("SET", fmt.Sprint("passing:", i), "v", "PX", "500")
			traffic.do("DEL", fmt.Sprint("passing:", i-50))
		}
	})
	d := &disturbance{c: c, random: rand.New(rand.NewPCG(9, 9))}
	for round := range dose(2, 20) {
		for range 10 {
			d.move(t)
		}
		d.failover(t, round)
		time.Sleep(200 * time.Millisecond)
	}
	d.kill(t)
	for range 12 {
		d.move(t)
	}
	close(end)
	scans.Wait()
	close(scanned)
	group.Wait()
	for _, s := range scanners {
		t.Logf("%v: %d scans, %d pages, at most %d, %d errors", s.args, s.scans, s.pages, s.most, s.failed)
	}
	if passing.Load() == 0 {
		t.Error("no keys came and went")
	}
}

// disturbance is what happens to a cluster while it is scanned.
type disturbance struct {
	c      *redisCluster
	random *rand.Rand
}

// move has a slot go to another master and, mostly, soon come back.
func (d *disturbance) move(t *testing.T) {
	key := fmt.Sprint("stay:", d.random.IntN(scanKeys))
	if d.random.IntN(2) == 0 {
		key = fmt.Sprintf("{%d}", 4*d.random.IntN(10))
	}
	from := d.c.masterOf(t, key)
	var others []*server
	for _, n := range d.c.nodes {
		if !n.ended() && n != from && n.info(t, "replication", "role") == "master" {
			others = append(others, n)
		}
	}
	to, slot := others[d.random.IntN(len(others))], d.c.slotOf(t, key)
	d.c.migrate(t, slot, from, to, time.Duration(d.random.IntN(8))*time.Millisecond)
	if d.random.IntN(3) > 0 {
		time.Sleep(time.Duration(d.random.IntN(20)) * time.Millisecond)
		d.c.migrate(t, slot, to, from, 0)
	}
}

// failover has a replica take its master's place, and mostly give it back.
func (d *disturbance) failover(t *testing.T, round int) {
	master := d.c.masterOf(t, fmt.Sprint("stay:", d.random.IntN(scanKeys)))
	replica := d.c.replicasOf(t, master)[0]
	d.promote(t, replica, master)
	if round%2 == 0 {
		d.promote(t, master, replica)
	}
}

// promote asks for a fail-over until it has come about. It may be too early for one at first, and be undone when
// slots have moved that not all nodes have heard of.
func (d *disturbance) promote(t *testing.T, replica, master *server) {
	t.Helper()
	d.agreed(t)
	var asked time.Time
	eventually(t, 4*patience, "the replica is master, and the master replica", func() bool {
		if replica.info(t, "replication", "role") == "master" {
			return master.info(t, "replication", "role") == "slave"
		}
		if replica.info(t, "replication", "master_link_status") == "up" && time.Since(asked) > 1500*time.Millisecond {
			asked = time.Now()
			ask(replica.addr, "CLUSTER", "FAILOVER")
		}
		return false
	})
}

// agreed waits until all nodes say the same of all slots.
func (d *disturbance) agreed(t *testing.T) {
	t.Helper()
	eventually(t, 2*patience, "the nodes agree", func() bool {
		said := make(map[string]bool)
		for _, n := range d.c.nodes {
			if n.ended() {
				continue
			}
			var ranges []string
			for _, r := range n.do(t, "CLUSTER", "SLOTS").elems {
				ranges = append(ranges, fmt.Sprint(r.elems[0].text, r.elems[1].text, r.elems[2].elems[1].text))
			}
			slices.Sort(ranges)
			said[fmt.Sprint(ranges, infoField(n.do(t, "CLUSTER", "INFO").text, "cluster_current_epoch"))] = true
		}
		return len(said) == 1
	})
}

// kill ends a master whose replica has everything.
func (d *disturbance) kill(t *testing.T) {
	t.Helper()
	d.agreed(t)
	master := d.c.masterOf(t, "stay:1")
	replica := d.c.replicasOf(t, master)[0]
	eventually(t, 2*patience, "the replica is in sync", func() bool {
		return replica.info(t, "replication", "master_link_status") == "up"
	})
	master.kill()
	eventually(t, 3*patience, "the replica has taken over", func() bool {
		return replica.info(t, "replication", "role") == "master"
	})
	for _, n := range d.c.nodes {
		if !n.ended() {
			eventually(t, 2*patience, "the cluster is whole", func() bool {
				return infoField(n.do(t, "CLUSTER", "INFO").text, "cluster_state") == "ok"
			})
		}
	}
}
