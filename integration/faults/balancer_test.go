package faults

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"lockproxy/integration/rig"
)

// asked is the admin address of a proxy, as a balancer reaches it, and what it was told there.
type asked struct {
	ready, unready atomic.Int64
	port           string
}

// ask passes /readyz on to p; without p the answer is yes.
func ask(t *testing.T, p *rig.Proxy) *asked {
	a := new(asked)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		if p != nil {
			if got, _, err := p.Get(r.URL.String()); err != nil || got != http.StatusOK {
				status = http.StatusServiceUnavailable
			}
		}
		w.WriteHeader(status)
		if status == http.StatusOK {
			a.ready.Add(1)
		} else {
			a.unready.Add(1)
		}
	}))
	t.Cleanup(s.Close)
	at, _ := url.Parse(s.URL)
	a.port = at.Port()
	return a
}

// startBalancer starts haproxy as docs/high-availability.md has it, before proxies that it asks there.
func startBalancer(t *testing.T, proxies [2]string, checks [2]*asked) (addr string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/high-availability.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```haproxy\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/high-availability.md has no configuration of haproxy")
	}
	addr = fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	text := string(found[1])
	for old, now := range map[string]string{
		"bind :6379":               "bind " + addr,
		"server a 10.0.0.1:6380\n": "server a " + proxies[0] + " port " + checks[0].port + "\n",
		"server b 10.0.0.2:6380\n": "server b " + proxies[1] + " port " + checks[1].port + "\n",
	} {
		if strings.Count(text, old) != 1 {
			t.Fatalf("no %q in:\n%s", old, text)
		}
		text = strings.Replace(text, old, now, 1)
	}
	h := rig.StartProcess(t, "haproxy", "-db", "-f", rig.WriteFile(t, "haproxy.cfg", text))
	rig.Eventually(t, rig.Patience, "haproxy listens", func() bool {
		if h.Ended() {
			t.Fatalf("haproxy ended: %s", h.Log.Tail())
		}
		return newClients(addr, 1) == nil
	})
	return addr
}

// newClients has n clients come, each read a key, and go.
func newClients(addr string, n int, keys ...string) error {
	for i := range n {
		words := []string{"PING"}
		if len(keys) > 0 {
			words = []string{"GET", keys[i%len(keys)]}
		}
		if v, err := rig.Ask(addr, words...); err != nil || v.IsError() {
			return fmt.Errorf("client %d: %q: %s %w", i, words, v, err)
		}
	}
	return nil
}

// A master that is gone for good takes no proxy out of the balancer: what the others have is served. One that
// is stopped loses no new client, neither while it is not ready any more, nor when its port closes.
func TestBalancerOfTheDocs(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	var proxies [2]*rig.Proxy
	var addrs [2]string
	var checks [2]*asked
	for i, delay := range []string{"10m", "0"} { // the first is the one that is stopped
		proxies[i] = rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", "1s",
			"--drain-delay", delay)
		addrs[i], checks[i] = proxies[i].Addr, ask(t, proxies[i])
	}
	front := startBalancer(t, addrs, checks)
	var others []string
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		if c.MasterOf(t, key) != c.Nodes[2] {
			others = append(others, key)
		}
	}
	c.Nodes[2].Kill()
	for i, p := range proxies {
		readyz(t, p, 503, c.Nodes[2].Addr)
		before := checks[i].ready.Load()
		rig.Eventually(t, rig.Patience, "haproxy has asked again and again", func() bool {
			return checks[i].ready.Load() > before+3 || checks[i].unready.Load() > 3
		})
	}
	if err := newClients(front, 40, others...); err != nil {
		t.Errorf("a master is gone, the keys are of others: %v", err)
	}

	stopped, check := proxies[0], checks[0]
	stopped.Signal(syscall.SIGTERM)
	came := 0
	come := func(when string, until func() bool) {
		rig.Eventually(t, rig.Patience, when, func() bool {
			if err := newClients(front, 10, others...); err != nil {
				t.Fatalf("until %s: %v", when, err)
			}
			came += 10
			return until()
		})
	}
	come("haproxy has heard that it stops", func() bool { return check.unready.Load() > 3 })
	stopped.Signal(syscall.SIGTERM) // the delay is over
	come("it has ended", stopped.Ended)
	come("it is gone", func() bool { return true })
	t.Logf("%d clients came", came)
}

// A proxy that is gone before the balancer knows it costs no new client anything: the other one serves it.
func TestBalancerBeforeAProxyThatIsGone(t *testing.T) {
	t.Parallel()
	gone, p := fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)), rig.StartProxy(t, "--dev")
	front := startBalancer(t, [2]string{gone, p.Addr}, [2]*asked{ask(t, nil), ask(t, p)})
	if err := newClients(front, 40); err != nil {
		t.Error(err)
	}
}
