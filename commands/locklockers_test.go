package commands_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lockproxy/cluster/master"
	"lockproxy/commands/lock"
	"lockproxy/internal/subscription"
	"lockproxy/redlock/index"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/quorum"
	"lockproxy/redlock/scripts"
)

// loneNode is a LockRedis as a Node of RedLock.
type loneNode struct {
	*lockRedis
	name string
}

func (n loneNode) Addr() string               { return n.name }
func (n loneNode) Vote() error                { return nil }
func (n loneNode) Heard(_, _ time.Time) error { return nil }
func (n loneNode) Distrust(string)            {}
func (n loneNode) Ask(req []byte, _ time.Duration, tag int, to quorum.NodeAnswerer) {
	reply, err := n.lockRedis.Do(context.Background(), 0, req, false)
	to.Answer(tag, reply, err)
}
func (n loneNode) Subscribe(string, func(subscription.Change)) func() { return func() {} }

// withQuorum runs test, in fake time, with sessions whose locks called pay:... are kept by three
// independent masters, those called set:... and son:... in the form of other libraries, and all others by
// the upstream.
func withQuorum(t *testing.T,
	test func(t *testing.T, upstream *miniredis.Miniredis, session func() *client)) {
	synctest.Test(t, func(t *testing.T) {
		start := func() (*miniredis.Miniredis, *lockRedis) {
			m := miniredis.NewMiniRedis()
			m.ClockTTL(true)
			n := dialLockRedis(t, m, "PING")
			for _, s := range scripts.All() {
				n.Answer([]string{"SCRIPT", "LOAD", s.Source})
			}
			return m, n
		}
		m, n := start()
		defer m.Close()
		defer n.Close()
		var nodes []quorum.Node
		for _, name := range []string{"a:1", "b:1", "c:1"} {
			m, n := start()
			defer m.Close()
			defer n.Close()
			nodes = append(nodes, loneNode{n, name})
		}
		all := lock.Lockers{
			Plain:  locks.New(n, locks.Options{}),
			Quorum: locks.NewRedlock(nodes, quorum.Options{}, locks.Options{}),
			Compat: locks.NewCompat(n, locks.Options{}), CompatPrefixes: []string{"set:", "son:"},
			Prefixes: []string{"due:", "pay:"}, LeastLease: time.Second,
			Masters: func() []master.Health {
				return []master.Health{
					{Addr: "a:1", Up: true, Votes: true, ClockOffset: -7 * time.Millisecond},
					{Addr: "b:1", Up: true, Why: "it restarted", Until: time.Now().Add(9 * time.Second)},
				}
			},
		}
		defer all.Plain.Close(context.Background())
		defer all.Quorum.Close(context.Background())
		defer all.Compat.Close(context.Background())
		all.Busiest = lock.NewBusiest(100)
		all.Ledger = lock.NewLedger(index.New(nil, index.Options{}), nil, nil)
		table := redis7(t, lock.Verbs(all)...)
		test(t, m, func() *client { return &client{session: sessionOver(t, table, n.Answer)} })
	})
}

// The verbs do the same, wherever the lock is kept; its name says where. R27
func TestLockersByName(t *testing.T) {
	withQuorum(t, func(t *testing.T, upstream *miniredis.Miniredis, session func() *client) {
		conns := map[string]*client{"a": session(), "b": session(), "c": session()}
		converse(t, conns, `
			a LOCK pay:1 TOKEN t PX 60000 META why -> *[t F ...
			b LOCK pay:1 TOKEN u -> $nil
			b LOCK pay:1 TOKEN u WAIT 100 -> $nil
			b LOCK pay:1 TOKEN u TRIES 2 EVERY 10 -> $nil
			a LOCK pay:1 TOKEN t PX 60000 REENTRANT -> *[t F ...
			b LOCKCTL CHECK pay:1 t -> *[...
			b LOCKCTL INFO pay:1 -> *[state write fence F holders *[*[token ...
			b RENEW pay:1 u -> 0
			b UNLOCK pay:1 u -> $nil
			a UNLOCK pay:1 -> 0
			a UNLOCK pay:1 -> 1
			a UNLOCK pay:1 t -> $nil
			c RLOCK due:2 TOKEN r -> *[r F ...
			b RLOCK due:2 TOKEN s KEEPALIVE -> *[s F ...
			b LOCKCTL BREAK due:2 -> 1
			b LOCKCTL BREAK due:2 -> 0
			a LOCK job TOKEN t -> *[t F 30000 1]
			a LOCK p:pay: TOKEN t -> *[t F 30000 1]
			a LOCK pay:3 TOKEN t -> *[t F ...
			b LOCKCTL LIST -> *[*[name job ...
			a LOCK pay:1 SYNC 1 -> -ERR SYNC is not for locks of RedLock...
			a SEMLOCK pay:1 PERMITS 2 -> -ERR SEMLOCK is not for locks of RedLock...
			a SEMLOCK p:q PERMITS 2 TOKEN t -> *[t F 30000 1]
			a LOCK job TOKEN t SYNC 0 -> *[t F 30000 1]
			a LOCK pay:3 TOKEN t SYNC 0 -> *[t F ...
			a LOCK pay:4 PX 999 -> -ERR a lease of 999 ms is too short for RedLock: 1000 ms are the least...
			a LOCK pay:4 TOKEN t PX 1000 -> *[t F ...
			a LOCK other TOKEN t PX 999 -> *[t F 999 1]`)
		for _, key := range upstream.Keys() {
			if strings.Contains(key, "pay:1") || strings.Contains(key, "pay:3") ||
				strings.Contains(key, "due:") {
				t.Errorf("the upstream has %s", key)
			}
		}
		list := readable(conns["a"].Do("LOCKCTL LIST"))
		last := -1
		for _, name := range []string{"name job ", "name other ", "name p:pay: ", "name p:q ",
			"name pay:3 ", "name pay:4 "} {
			at := strings.Index(list, name)
			if at <= last || strings.Count(list, name) != 1 {
				t.Errorf("LIST has %q at %d: %s", name, at, list)
			}
			last = at
		}
		if got := readable(conns["a"].Do("LOCKCTL LIST COUNT 2")); !strings.Contains(got,
			"name other") || strings.Contains(got, "pay") {
			t.Errorf("LIST COUNT 2: %s", got)
		}
		stats := readable(conns["a"].Do("LOCKCTL STATS"))
		for _, want := range []string{
			"granted *[write 9 read 2 permit 1]", "refused *[write 3 read 0 permit 0]",
			"released 2 not_held 2", // of both
			"nodes *[*[addr a:1 up 1 votes 1 why  until_ms 0 clock_offset_ms -7] *[addr b:1 up 1 votes 0 " +
				"why it restarted until_ms 9000 clock_offset_ms 0]]",
		} {
			if !strings.Contains(stats, want) {
				t.Errorf("STATS lacks %q: %s", want, stats)
			}
		}
		all := readable(conns["a"].Do("LOCKCTL STATS ALL"))
		_, counters, _ := strings.Cut(stats, " holds ")
		counters, _, _ = strings.Cut(counters, " busiest ")
		if want := "*[proxies 1 silent *[] differing *[] holds " + counters + "]"; all != want {
			t.Errorf("STATS ALL of one proxy\n got %s\nwant %s", all, want)
		}
	})
}

// converse has connections say what stands in front of the arrows, and compares what they are answered. Dots
// stand for the rest of an answer.
func converse(t *testing.T, conns map[string]*client, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		call, want, ok := strings.Cut(strings.TrimSpace(line), " -> ")
		if !ok {
			continue
		}
		name, command, _ := strings.Cut(call, " ")
		got := readable(conns[name].Do(command))
		prefix, cut := strings.CutSuffix(want, "...")
		if got != want && (!cut || !strings.HasPrefix(got, strings.TrimSpace(prefix))) {
			t.Errorf("%s\n got %s\nwant %s", call, got, want)
		}
	}
}

// One MLOCK takes locks of all kinds: of the upstream, of independent masters, and in the forms of other
// libraries. It has all of them or none, and what one kind refuses is refused for all. R27
func TestSetOfAllKinds(t *testing.T) {
	withQuorum(t, func(t *testing.T, upstream *miniredis.Miniredis, session func() *client) {
		conns := map[string]*client{"a": session(), "b": session()}
		converse(t, conns, `
			a MLOCK 5 job pay:1 set:1 son:1 {job}x TOKEN t PX 60000 -> *[t *[F F ...
			b LOCK job -> $nil
			b LOCK pay:1 -> $nil
			b LOCK set:1 -> $nil
			b LOCK son:1 -> $nil
			a MLOCK 2 pay:1 job TOKEN t PX 60000 -> *[t *[F F] ...
			a MRENEW 4 son:1 pay:1 set:1 job t PX 70000 -> ...
			b LOCKCTL LIST MATCH s* -> *[]
			b LOCKCTL LIST MATCH s* SCAN -> *[]
			b LOCKCTL INFO set:1 -> *[state write ...
			b LOCKCTL INFO son:1 -> *[state write ...
			b MLOCK 3 free pay:2 set:1 TOKEN u -> $nil
			b MLOCK 3 free pay:1 set:2 TOKEN u -> $nil
			b MLOCK 3 son:2 pay:2 job TOKEN u -> $nil
			b LOCK free TOKEN v -> *[v ...
			b LOCK pay:2 TOKEN v -> *[v ...
			b LOCK set:2 TOKEN v -> *[v ...
			b LOCK son:2 TOKEN v -> *[v ...
			b MUNLOCK 4 free pay:2 set:2 son:2 v -> 4
			b MLOCK 2 free set:2 META why -> -ERR META is not for locks of lock-compat...
			b MLOCK 2 free pay:3 PX 999 -> -ERR a lease of 999 ms is too short for RedLock...
			b MLOCK 2 set:2 pay:3 TOKEN u PX 60000 KEEPALIVE -> *[u ...
			a MLOCK 2 set:2 pay:3 TOKEN w WAIT 100 -> $nil
			b MUNLOCK 2 set:2 pay:3 u -> 2
			a MUNLOCK 5 job pay:1 set:1 son:1 {job}x t -> 5
			a MUNLOCK 5 job pay:1 set:1 son:1 {job}x t -> 0
			a MRENEW 2 job pay:1 t -> 0`)
		for _, key := range upstream.Keys() {
			if !strings.Contains(key, "fence") {
				t.Errorf("%s is left", key)
			}
		}
	})
}
