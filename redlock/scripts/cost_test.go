//go:build !quick

package scripts_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/scripts"
)

// spent are calls and microseconds of each command since CONFIG RESETSTAT, by the server's own account.
func spent(t testing.TB, s *rig.Server) (calls, usec map[string]float64) {
	calls, usec = map[string]float64{}, map[string]float64{}
	for line := range strings.Lines(s.Ask("INFO", "commandstats").Text()) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || strings.HasPrefix(name, "config") || name == "info" {
			continue
		}
		f := strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || r == '=' })
		calls[name], _ = strconv.ParseFloat(f[0], 64)
		usec[name], _ = strconv.ParseFloat(f[2], 64)
	}
	return calls, usec
}

// sum is how many calls there are.
func sum(calls map[string]float64) (all int) {
	for _, n := range calls {
		all += int(n)
	}
	return all
}

// costing is one command whose cost is measured: its name, that of Redis, and the request for
// the i-th lock.
type costing struct {
	name, command string
	request       func(i int) []byte
}

// cost is the microseconds that the server spends on each of n requests of c.
func cost(t testing.TB, s *rig.Server, c costing, n int) float64 {
	const batch = 50
	conn := s.Connect()
	defer conn.Close()
	out := bufio.NewWriter(conn)
	s.Ask("CONFIG", "RESETSTAT")
	for i := 0; i < n; i += batch {
		for j := range batch {
			out.Write(c.request(i + j))
		}
		out.Flush()
		for range batch {
			reply, err := conn.Reply()
			if err != nil || reply[0] == '-' {
				t.Fatalf("%s: %q %v", c.name, reply, err)
			}
		}
	}
	calls, usec := spent(t, s)
	if calls[c.command] != float64(n) {
		t.Fatalf("%s: %v calls", c.name, calls[c.command])
	}
	return usec[c.command] / calls[c.command]
}

// BenchmarkCost prints what the scripts cost Redis, beside what a SET NX and a
// compare-and-delete cost it: all of them in each round, the least and the median of the rounds.
// What LOCK and UNLOCK cost through a proxy, beside scripts of others, says integration/bench.
func BenchmarkCost(b *testing.B) {
	const n, rounds = 2000, 9
	s := rig.StartRedis(b)
	l := locks.New(&rig.Upstream{S: s}, locks.Options{})
	const trivial, compare = "return 1",
		"if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"
	load := func(source string) string { return s.Ask("SCRIPT", "LOAD", source).Text() }
	one, cad := load(trivial), load(compare)
	for _, script := range scripts.All() {
		load(script.Source)
	}
	name := func(i int) string { return fmt.Sprintf("job:%07d", i) }
	token := redlock.NewToken()
	cmd := func(words ...string) []byte { return resp.AppendCommandStrings(nil, words...) }
	acquire := func(a redlock.Acquire) func(i int) []byte {
		return func(i int) []byte {
			a.Name, a.Lease = name(i), time.Minute
			return rig.NotedAcquire(l, l.NewAcquire(a)).Req
		}
	}
	all := []costing{
		{`EVALSHA "return 1"`, "evalsha", func(int) []byte { return cmd("EVALSHA", one, "0") }},
		{"SET NX PX", "set", func(i int) []byte { return cmd("SET", name(i), token, "NX", "PX", "60000") }},
		{"compare and delete", "evalsha",
			func(i int) []byte { return cmd("EVALSHA", cad, "1", name(i), token) }},
	}
	for _, m := range []redlock.Mode{redlock.Write, redlock.Read} {
		release := func(i int) []byte {
			return rig.NotedRelease(l, &redlock.Release{Name: name(i), Token: token}).Req
		}
		all = append(all,
			costing{"acquire " + string(m), "evalsha", acquire(redlock.Acquire{Token: token, Mode: m})},
			costing{"acquire " + string(m) + ", held", "evalsha",
				acquire(redlock.Acquire{Token: "other", Mode: redlock.Write})},
			costing{"release " + string(m), "evalsha", release},
			costing{"acquire " + string(m) + ", kept", "evalsha",
				acquire(redlock.Acquire{Token: token, Mode: m, Keep: true})},
			costing{"renew " + string(m) + ", kept", "evalsha", func(i int) []byte {
				return notedRenew(l,
					&redlock.Renew{Name: name(i), Token: token, Lease: 2 * time.Minute}).Req
			}},
			costing{"release " + string(m) + ", kept", "evalsha", release})
	}
	// Keys that stay keep the dictionaries of the server at their size.
	s.Ask("EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'resident:' .. i, 'x', 'EX', 86400) end", "0",
		fmt.Sprint(10*n))
	took := make([][]float64, len(all))
	for range rounds {
		for i, c := range all {
			took[i] = append(took[i], cost(b, s, c, n))
		}
	}
	for i, c := range all {
		ratios := make([]float64, rounds)
		for j := range ratios {
			ratios[j] = took[i][j] / took[0][j]
		}
		slices.Sort(ratios)
		each := slices.Sorted(slices.Values(took[i]))
		fmt.Fprintf(os.Stdout, "%-20s %6.2f µs at least, %6.2f µs median, %5.2f of %s\n", c.name, each[0],
			each[rounds/2], ratios[rounds/2], all[0].name)
	}
}

// What Redis runs for one hand-over from one client of a proxy to the next, with 50
// waiting, when the one that had it asks again: the script that queues it, the script that
// releases, and what both call.
func TestCommandsOfAHandOver(t *testing.T) {
	s := rig.StartRedis(t)
	p := proxies.Start(t, s, 1)[0]
	proxies.Granted(t, p.Begin(t.Context(), redlock.Acquire{Token: "0"}))
	var queue []chan proxies.Result
	for i := range 50 {
		queue = append(queue, p.Begin(t.Context(), redlock.Acquire{
			Token: fmt.Sprint(i + 1), Wait: time.Minute,
		}))
	}
	// A client counts as waiting before its place reaches Redis.
	for i := 0; p.State().Waiters < len(queue); i++ {
		if i > 5000 {
			t.Fatal("not all are queued")
		}
		time.Sleep(time.Millisecond)
	}
	const n = 200
	var each []int
	for i := range n {
		s.Ask("CONFIG", "RESETSTAT")
		p.Unlock(fmt.Sprint(i))
		proxies.Granted(t, queue[i])
		asked := p.Up.Asked()
		queue = append(queue, p.Begin(t.Context(), redlock.Acquire{
			Token: fmt.Sprint(i + 51), Wait: time.Minute,
		}))
		for p.Up.Asked() == asked {
			time.Sleep(100 * time.Microsecond)
		}
		calls, _ := spent(t, s)
		each = append(each, sum(calls))
	}
	slices.Sort(each)
	// Two are there to know a release that is sent again. Others come once a second, and do not count:
	// the key's expiry moves on, and so does the sign of life of the proxy.
	if each[n/10] > 14 {
		t.Errorf("%d commands a hand-over: %v", each[n/10], each)
	}
	for i := n; i < len(queue); i++ {
		p.Unlock(fmt.Sprint(i))
		proxies.Granted(t, queue[i])
	}
	p.Unlock(fmt.Sprint(len(queue)))
	s.Empty(t)
}

// Not every request looks at all readers, which with many waiters would be most of the work of Redis. They
// are looked at only when the longest lease has ended.
func TestWaitersDoNotCountReaders(t *testing.T) {
	s := rig.StartRedis(t)
	p := proxies.Start(t, s, 1)[0]
	for i := range 20 {
		proxies.Granted(t, p.Begin(t.Context(), redlock.Acquire{
			Token: fmt.Sprint("r", i), Mode: redlock.Read, Lease: time.Minute + time.Duration(i)*time.Second,
		}))
	}
	s.Ask("CONFIG", "RESETSTAT")
	var queue []chan proxies.Result
	for i := range 50 {
		queue = append(queue, p.Begin(t.Context(), redlock.Acquire{Token: fmt.Sprint(i), Wait: time.Minute}))
	}
	for i := range 19 {
		p.Unlock(fmt.Sprint("r", i))
	}
	if calls, _ := spent(t, s); calls["hgetall"] > 0 {
		t.Errorf("%v HGETALL", calls["hgetall"])
	}
	p.Unlock("r19")
	for i, done := range queue {
		proxies.Granted(t, done)
		p.Unlock(fmt.Sprint(i))
	}
	s.Empty(t)
}
