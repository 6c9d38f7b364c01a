package transcripts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// scanKeys is how many keys stay: each full scan must see every one of them, at least once.
const scanKeys = 4000

// scanner goes through all keys again and again until end is closed, each page through another of the
// proxies.
type scanner struct {
	addrs []string
	args  []string // behind the cursor
	stay  map[string]bool

	scans, pages, most int // done; of them all; of the longest
	failed             int // replies with an error
}

func (s *scanner) run(seed uint64, end <-chan struct{}) error {
	var conns []*rig.Conn
	for _, addr := range s.addrs {
		c, err := rig.Dial(addr)
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
func (s *scanner) scan(conns []*rig.Conn, random *rand.Rand) error {
	seen, cursor, pages := make(map[string]bool), "0", 0
	for {
		v, err := conns[random.IntN(len(conns))].Do(append([]string{"SCAN", cursor}, s.args...)...)
		if err != nil {
			return err
		}
		if v.IsError() { // asked again, as any client would
			if s.failed++; s.failed > 2000 {
				return fmt.Errorf("SCAN %s: %s", cursor, v)
			}
			time.Sleep(5 * time.Millisecond)
			continue
		}
		for _, key := range v.Elems[1].Strings() {
			seen[key] = true
		}
		if n, err := strconv.ParseInt(v.Elems[0].Text, 10, 64); err != nil || n < 0 {
			return fmt.Errorf("cursor %s", v.Elems[0])
		}
		if pages++; pages > 60_000 {
			return fmt.Errorf("a scan has taken %d pages", pages)
		}
		if cursor = v.Elems[0].Text; cursor == "0" {
			break
		}
		time.Sleep(time.Millisecond) // the slots are to move meanwhile, and others want the processor
	}
	s.scans, s.pages, s.most = s.scans+1, s.pages+pages, max(s.most, pages)
	missed := 0
	for key := range s.stay {
		if !seen[key] {
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("scan %d, of %d pages, has not seen %d keys that were there all the time", s.scans,
			pages,
			missed)
	}
	return nil
}

// While slots move to and fro, masters change places with their replicas and one is killed, each full scan
// sees every key that is there all the time, through whichever proxy each page is asked for; and it ends.
func TestScanVisitsEachKey(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 1)
	c.DeadAfter("2000")
	proxies := []string{rig.StartProxy(t, "--upstream", c.Addrs()).Addr,
		rig.StartProxy(t, "--upstream", c.Addrs()).Addr}
	stay := make(map[string]bool)
	fill := rig.Connect(t, proxies[0])
	for i := range scanKeys {
		key := fmt.Sprint("stay:", i)
		if i%4 == 0 {
			key = fmt.Sprintf("{%d}:stay:%d", i%40, i) // slots with many keys
		}
		stay[key] = true
		fill.Send("SET", key, "v")
	}
	for range scanKeys {
		if v, err := fill.Receive(rig.Patience); err != nil || v.IsError() {
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
		traffic, err := rig.Dial(proxies[0])
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
			traffic.Do("SET", fmt.Sprint("passing:", i), "v", "PX", "500")
			traffic.Do("DEL", fmt.Sprint("passing:", i-50))
		}
	})
	d := &disturbance{c: c, random: rand.New(rand.NewPCG(9, 9))}
	for round := range rig.Dose(2, 20) {
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
	c      *rig.Cluster
	random *rand.Rand
}

// move has a slot go to another master and, mostly, soon come back.
func (d *disturbance) move(t *testing.T) {
	key := fmt.Sprint("stay:", d.random.IntN(scanKeys))
	if d.random.IntN(2) == 0 {
		key = fmt.Sprintf("{%d}", 4*d.random.IntN(10))
	}
	from := d.c.MasterOf(t, key)
	var others []*rig.Server
	for _, n := range d.c.Nodes {
		if !n.Ended() && n != from && n.Info(t, "replication", "role") == "master" {
			others = append(others, n)
		}
	}
	to, slot := others[d.random.IntN(len(others))], d.c.SlotOf(t, key)
	d.c.Migrate(t, slot, from, to, time.Duration(d.random.IntN(8))*time.Millisecond)
	if d.random.IntN(3) > 0 {
		time.Sleep(time.Duration(d.random.IntN(20)) * time.Millisecond)
		d.c.Migrate(t, slot, to, from, 0)
	}
}

// failover has a replica take its master's place, and mostly give it back.
func (d *disturbance) failover(t *testing.T, round int) {
	master := d.c.MasterOf(t, fmt.Sprint("stay:", d.random.IntN(scanKeys)))
	replica := d.c.ReplicasOf(t, master)[0]
	d.promote(t, replica, master)
	if round%2 == 0 {
		d.promote(t, master, replica)
	}
}

// promote asks for a fail-over until it has come about. It may be too early for one at first, and be undone
// when slots have moved that not all nodes have heard of.
func (d *disturbance) promote(t *testing.T, replica, master *rig.Server) {
	t.Helper()
	d.agreed(t)
	var asked time.Time
	rig.Eventually(t, 4*rig.Patience, "the replica is master, and the master replica", func() bool {
		if replica.Info(t, "replication", "role") == "master" {
			return master.Info(t, "replication", "role") == "slave"
		}
		if replica.Info(t, "replication", "master_link_status") == "up" &&
			time.Since(asked) > 1500*time.Millisecond { //house:brief asks again
			asked = time.Now()
			rig.Ask(replica.Addr, "CLUSTER", "FAILOVER")
		}
		return false
	})
}

// agreed waits until all nodes say the same of all slots.
func (d *disturbance) agreed(t *testing.T) {
	t.Helper()
	rig.Eventually(t, 2*rig.Patience, "the nodes agree", func() bool {
		said := make(map[string]bool)
		for _, n := range d.c.Nodes {
			if n.Ended() {
				continue
			}
			var ranges []string
			for _, r := range n.Do(t, "CLUSTER", "SLOTS").Elems {
				ranges = append(ranges,
					fmt.Sprint(r.Elems[0].Text, r.Elems[1].Text, r.Elems[2].Elems[1].Text))
			}
			slices.Sort(ranges)
			said[fmt.Sprint(ranges,
				rig.InfoField(n.Do(t, "CLUSTER", "INFO").Text, "cluster_current_epoch"))] = true
		}
		return len(said) == 1
	})
}

// kill ends a master whose replica has everything.
func (d *disturbance) kill(t *testing.T) {
	t.Helper()
	d.agreed(t)
	master := d.c.MasterOf(t, "stay:1")
	replica := d.c.ReplicasOf(t, master)[0]
	rig.Eventually(t, 2*rig.Patience, "the replica is in sync", func() bool {
		return replica.Info(t, "replication", "master_link_status") == "up"
	})
	master.Kill()
	rig.Eventually(t, 3*rig.Patience, "the replica has taken over", func() bool {
		return replica.Info(t, "replication", "role") == "master"
	})
	for _, n := range d.c.Nodes {
		if !n.Ended() {
			rig.Eventually(t, 2*rig.Patience, "the cluster is whole", func() bool {
				return rig.InfoField(n.Do(t, "CLUSTER", "INFO").Text, "cluster_state") == "ok"
			})
		}
	}
}
