package attacks

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// monitored is what MONITOR shows at some servers.
type monitored struct {
	mu   sync.Mutex
	text map[string]*strings.Builder // by server
}

// monitorOf watches servers until the test ends.
func monitorOf(t *testing.T, all ...*rig.Server) *monitored {
	o := &monitored{text: make(map[string]*strings.Builder)}
	for _, s := range all {
		c := rig.Connect(t, s.Addr)
		c.Must(t, "MONITOR")
		o.text[s.Addr] = &strings.Builder{}
		go func() { // ends with the connection
			for {
				v, err := c.Receive(time.Hour)
				if err != nil {
					return
				}
				o.mu.Lock()
				fmt.Fprintln(o.text[s.Addr], v)
				o.mu.Unlock()
			}
		}()
	}
	return o
}

// heard is what was shown at a server up to now.
func (o *monitored) heard(t *testing.T, s *rig.Server) string {
	end := fmt.Sprint("end-", time.Now().UnixNano())
	s.Do(t, "ECHO", end)
	var text string
	rig.Eventually(t, rig.Patience, "MONITOR shows the last command", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		text = o.text[s.Addr].String()
		return strings.Contains(text, end)
	})
	return text
}

// everything is all that the keys of a server hold.
func everything(t *testing.T, s *rig.Server) string {
	var b strings.Builder
	for _, key := range s.Do(t, "KEYS", "*").Elems {
		read := "GET"
		if s.Do(t, "TYPE", key.Text).Text == "hash" {
			read = "HGETALL"
		}
		v, _ := rig.Ask(s.Addr, read, key.Text) // which may have changed its type meanwhile
		fmt.Fprintln(&b, key.Text, v)
	}
	return b.String()
}

// No server that keeps locks is told a token, whatever is asked for: neither in its keys nor in what
// MONITOR and SLOWLOG show.
func TestRedisSeesNoTokens(t *testing.T) {
	t.Parallel()
	one, three := rig.StartRedis(t), rig.StartMasters(t, 3)
	one.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "0")
	one.Do(t, "CONFIG", "SET", "slowlog-max-len", "100000")
	for name, p := range map[string]*rig.Proxy{
		"one": rig.StartProxy(t, "--upstream", one.Addr),
		"three": three.StartRedlock(t, 20*time.Second, "--redlock-max-lease", "30s",
			"--upstream", rig.StartRedis(t).Addr),
	} {
		t.Run(name, func(t *testing.T) {
			nodes := []*rig.Server(three)
			if name == "one" {
				nodes = []*rig.Server{one}
			}
			o := monitorOf(t, nodes...)
			c, d := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
			var kept strings.Builder // in keys, at any time
			step := func(c *rig.Conn, want string, args ...string) {
				t.Helper()
				if v := c.Must(t, args...); want != "" && v.String() != want {
					t.Errorf("%q: %s, want %s", args, v, want)
				}
				for _, s := range nodes {
					kept.WriteString(everything(t, s))
				}
			}
			const lease = "30000"
			made := c.Must(t, "LOCK", "made", "PX", lease).Elems[0].Text
			step(c, "(integer) 1", "UNLOCK", "made")
			step(c, "", "LOCK", "k", "TOKEN", "SECRET-1", "PX", lease, "META", "of SECRET's owner")
			step(c, "", "LOCKCTL", "CHECK", "k", "SECRET-1")
			step(c, "", "LOCK", "k", "TOKEN", "SECRET-1", "PX", lease, "REENTRANT")
			step(c, "(nil)", "LOCK", "k", "TOKEN", "SECRET-2", "PX", lease, "TRIES", "2", "EVERY", "1")
			step(c, "(nil)", "LOCK", "k", "TOKEN", "SECRET-2", "PX", lease, "WAIT", "50")
			d.Send("LOCK", "k", "TOKEN", "SECRET-2", "PX", lease, "WAIT", "30000", "KEEPALIVE",
				"META", "waits")
			if name == "one" {
				rig.WaitersOf(t, p.Addr, "k", 1)
			}
			step(c, "", "RENEW", "k", "SECRET-1", "PX", lease)
			step(c, "", "RENEW", "k", "SECRET-1", "PX", lease, "KEEPALIVE")
			step(c, "", "LOCKCTL", "INFO", "k")
			step(c, "", "LOCKCTL", "LIST")
			step(c, "(nil)", "UNLOCK", "k", "SECRET-1", "FENCE", "1")
			step(c, "(integer) 0", "UNLOCK", "k", "SECRET-1")
			step(c, "(integer) 1", "UNLOCK", "k", "SECRET-1")
			if v, err := d.Receive(rig.Patience); err != nil || len(v.Elems) != 4 ||
				v.Elems[0].Text != "SECRET-2" {
				t.Fatalf("%s %v", v, err)
			}
			step(c, "", "RLOCK", "shared", "TOKEN", "SECRET-3", "PX", lease)
			step(c, "", "RLOCK", "shared", "TOKEN", "SECRET-4", "PX", lease)
			step(c, "(integer) 1", "UNLOCK", "shared", "SECRET-4")
			step(c, "", "WLOCK", "shared", "TOKEN", "SECRET-3", "PX", lease)
			step(c, "", "RLOCK", "shared", "TOKEN", "SECRET-3", "PX", lease)
			step(c, "", "LOCK", "kept", "TOKEN", "SECRET-5", "PX", "20000", "KEEPALIVE")
			rig.Eventually(t, rig.Patience, "it is renewed", func() bool {
				return p.Metric(t, "lockproxy_lock_renewals_total") > 0
			})
			d.Close() // what it keeps is freed
			rig.Eventually(t, rig.Patience, "k is free", func() bool {
				return c.Must(t, "LOCKCTL", "CHECK", "k", "SECRET-2").String() == "(nil)"
			})
			step(c, "(integer) 1", "LOCKCTL", "BREAK", "kept")
			many := c.Must(t, "MLOCK", "2", "{g}a", "{g}b", "PX", lease).Elems[0].Text
			step(c, "", "MLOCK", "3", "{h}a", "{h}b", "k", "TOKEN", "SECRET-6", "PX", lease, "META",
				"SECRET's")
			step(c, "", "MLOCK", "2", "{h}a", "{i}b", "TOKEN", "SECRET-6", "PX", "20000", "KEEPALIVE")
			step(c, "(nil)", "MLOCK", "2", "{h}c", "k", "TOKEN", "SECRET-7", "PX", lease, "WAIT", "50")
			step(c, "", "MRENEW", "2", "{h}a", "k", "SECRET-6", "PX", lease)
			step(c, "(integer) 4", "MUNLOCK", "4", "{h}a", "{h}b", "{i}b", "k", "SECRET-6")
			step(c, "", "RESET")
			for _, s := range nodes {
				shown := map[string]string{"MONITOR": o.heard(t, s), "keys": kept.String(),
					"SLOWLOG": s.Do(t, "SLOWLOG", "GET", "-1").String()}
				for where, text := range shown {
					if where != "SLOWLOG" && !strings.Contains(text, "lock:{k}") {
						t.Errorf("%s: nothing of the locks is seen: the test sees nothing", where)
					}
					for _, token := range []string{"SECRET-", made, many} {
						if i := strings.Index(text, token); i >= 0 {
							t.Errorf("%s shows a token: ...%s...", where,
								text[max(0, i-200):min(len(text), i+50)])
						}
					}
				}
			}
		})
	}
}
