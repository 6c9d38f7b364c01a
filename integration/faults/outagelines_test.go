package faults

import (
	"context"
	"fmt"
	"slices"

	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// allKinds are conversations of clients, each over a connection of its own, again and again: what a proxy may
// have under way when a master goes. %d is the number of the client.
var allKinds = []string{
	"GET k%d", "SET k%d v", "MSET k1 v k2 v k3 v k4 v", "SCAN 0", "DBSIZE", "PUBLISH news v",
	"BLPOP q%d 1", "SUBSCRIBE news%d; UNSUBSCRIBE", "SSUBSCRIBE news%d; SUNSUBSCRIBE", "WAIT 1 50",
	"MULTI; SET k%d v; EXEC", "WATCH k%d; MULTI; GET k%d; EXEC", "CLIENT TRACKING on; GET k%d",
	"EVAL return{} 1 k%d", "LOCK l%d PX 20000; UNLOCK l%d", "LOCK hot PX 20000 WAIT 300; UNLOCK hot",
	"RLOCK hot PX 20000 WAIT 300; UNLOCK hot", "LOCK kept%d TOKEN t PX 30000 KEEPALIVE; GET k%d; GET k%d",
	"LOCK hot TOKEN n%d PX 20000 WAIT 300 NOTIFY news; UNLOCK hot n%d", "LOCKCTL LIST", "LOCKCTL INFO hot",
	"LOCK hot PX 20000 TRIES 3 EVERY 50", "SEMLOCK sem PERMITS 2 TOKEN t%d PX 20000; UNLOCK sem t%d",
	"MLOCK 3 m%d n%d o%d TOKEN t PX 20000 WAIT 200; MUNLOCK 3 m%d n%d o%d t",
	"LOCKCTL STATS ALL", "LOCK l%d TOKEN t%d PX 20000; GUARD l%d t%d SET k%d v; RENEW l%d t%d PX 30000",
}

// keepBusy has a client for each of allKinds until the test ends.
func keepBusy(t *testing.T, p *rig.Proxy) {
	ctx, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i, kind := range allKinds {
		words := strings.Split(strings.ReplaceAll(kind, "%d", fmt.Sprint(i)), "; ")
		all.Go(func() {
			for ctx.Err() == nil {
				c, err := rig.Dial(p.Addr)
				if err != nil {
					continue
				}
				stop := context.AfterFunc(ctx, func() { c.Close() })
				for n := 0; err == nil && n < 20*len(words); n++ {
					time.Sleep(30 * time.Millisecond)
					_, err = c.Do(strings.Fields(words[n%len(words)])...)
				}
				stop()
				c.Close()
			}
		})
	}
	t.Cleanup(func() {
		end()
		all.Wait()
	})
}

// A master is away until the log has had time for three reminders, while clients do whatever clients can do.
// What the log says of it is ten lines at most. R33
//
// They are tests of their own, since subtests begin after all other tests, and these take long.
func TestOutageIsFewLines(t *testing.T)        { outageIsFewLines(t, overOne, killed, "node") }
func TestHangIsFewLines(t *testing.T)          { outageIsFewLines(t, overOne, stopped, "node") }
func TestOutageOfOneIsFewLines(t *testing.T)   { outageIsFewLines(t, overThree, killed, "node") }
func TestHangOfAMasterIsFewLines(t *testing.T) { outageIsFewLines(t, overVoters, stopped, "master") }

func killed(t *testing.T, s *rig.Server) (heal func()) {
	s.Kill()
	return func() { s.Restart(t) }
}

func stopped(t *testing.T, s *rig.Server) (heal func()) {
	s.Stop(t)
	return func() { s.Signal(syscall.SIGCONT) }
}

// outageIsFewLines has a fault happen to a server, which the log calls who.
func outageIsFewLines(t *testing.T, start func(t *testing.T) (*rig.Proxy, *rig.Server),
	fault func(t *testing.T, s *rig.Server) (heal func()), who string) {
	t.Parallel()
	p, s := start(t)
	keepBusy(t, p)
	rig.Eventually(t, rig.Patience, "all clients have begun", func() bool {
		return p.Metric(t, "lockproxy_commands_total") > float64(20*len(allKinds))
	})
	before := len(p.Log.String())
	heal := fault(t, s)
	defer s.Signal(syscall.SIGCONT)
	p.Logged(t, `(?s)(msg="`+who+` is still (lost|away)".*){3}`)
	heal()
	p.Logged(t, `msg="`+who+` (is back|answers again)"`)
	lines := slices.DeleteFunc(rig.LinesOf(p.Log.String()[before:]), func(line string) bool {
		node := rig.LineField(line, "node") // a busy machine may make others late, too
		return node != "" && node != s.Addr
	})
	if len(lines) > 10 {
		t.Errorf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}

func overOne(t *testing.T) (*rig.Proxy, *rig.Server) {
	s := rig.StartRedis(t)
	return rig.StartProxy(t, "--upstream", s.Addr), s
}

func overThree(t *testing.T) (*rig.Proxy, *rig.Server) {
	c := rig.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	return rig.StartProxy(t, "--upstream", c.Addrs()), c.MasterOf(t, "hot")
}

func overVoters(t *testing.T) (*rig.Proxy, *rig.Server) {
	three := rig.StartMasters(t, 3)
	return three.StartRedlock(t, 4*time.Second, "--upstream", rig.StartRedis(t).Addr,
		"--redlock-max-lease", "30s"), three[0]
}
