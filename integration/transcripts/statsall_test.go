package transcripts

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// STATS ALL adds up the counters of all proxies that clients have asked for locks, whatever these were told,
// and says which of them did not answer.
func TestStatsOfAllProxies(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() []*rig.Server{
		"single":  func() []*rig.Server { return []*rig.Server{rig.StartRedis(t)} },
		"cluster": func() []*rig.Server { return rig.StartCluster(t, 3, 0).Nodes },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			statsOfAll(t, start())
		})
	}
}

func statsOfAll(t *testing.T, nodes []*rig.Server) {
	var proxies [2]*rig.Proxy
	var conns [2]*rig.Conn
	for i := range proxies {
		proxies[i] = rig.StartProxy(t, "--upstream", nodes[0].Addr)
		conns[i] = rig.Connect(t, proxies[i].Addr)
	}
	here, there := conns[0], conns[1]
	here.Must(t, "LOCK", "job", "TOKEN", "t", "PX", "600000")
	there.Must(t, "LOCK", "other", "TOKEN", "u", "PX", "600000", "KEEPALIVE")
	there.Must(t, "RLOCK", "doc", "TOKEN", "u", "PX", "600000")
	there.Want(t, "(nil)", "LOCK", "job", "TOKEN", "u")
	id := there.Must(t, "LOCKCTL", "STATS").Field("proxy").Text

	see := func(proxies int64, silent string) rig.Reply {
		t.Helper()
		for until := time.Now().Add(rig.Patience); ; time.Sleep(20 * time.Millisecond) {
			v := here.Must(t, "LOCKCTL", "STATS", "ALL")
			is := func(r rig.Reply) bool { return r.Text == silent }
			quiet := slices.ContainsFunc(v.Field("silent").Elems, is)
			if v.Field("proxies").Int() == proxies && quiet == (silent != "") {
				return v
			}
			if time.Now().After(until) {
				t.Fatalf("not %d proxies, and %q silent: %s", proxies, silent, v)
			}
		}
	}
	v := see(2, "")
	if v.Field("granted").Field("write").Int() != 2 || v.Field("granted").Field("read").Int() != 1 ||
		v.Field("refused").Field("write").Int() != 1 || v.Field("holds").Int() != 1 {
		t.Errorf("%s", v)
	}
	if alone := here.Must(t, "LOCKCTL", "STATS"); alone.Field("granted").Field("write").Int() != 1 {
		t.Errorf("STATS of one proxy: %s", alone)
	}
	idle := rig.Connect(t, rig.StartProxy(t, "--upstream", nodes[0].Addr).Addr)
	idle.Want(t, "PONG", "PING")
	see(2, "") // it knows nothing of locks
	idle.Want(t, "(nil)", "LOCK", "job", "TOKEN", "u")
	idle.Want(t, "(nil)", "UNLOCK", "job", "u")
	if v = see(3, ""); v.Field("refused").Field("write").Int() != 2 || v.Field("not_held").Int() != 1 {
		t.Errorf("%s", v)
	}
	proxies[1].Signal(syscall.SIGSTOP)
	defer proxies[1].Signal(syscall.SIGCONT)
	if v = see(2, id); v.Field("granted").Field("write").Int() != 1 {
		t.Errorf("%s", v)
	}
}
