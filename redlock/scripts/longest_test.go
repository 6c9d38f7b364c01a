//go:build !quick

package scripts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// seedLock makes a lock as many clients would leave it, more quickly. ARGV: how many readers; how many
// waiters; the distance of their places; "alive", or "proxy" or "deadline" for what has ended; 1 if a writer
// W has the lock; 1 if it was offered to all, who did not take it; of the readers: "kept" alive by a proxy,
// with the longest "meta", "over" if their leases are ("over-meta": both), or "gone" if as many more as can
// be have gone.
const seedLock = `
local key, readers, waiters = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local step, dead = tonumber(ARGV[3]), ARGV[4]
local writer, offered, kind = ARGV[5] == '1', ARGV[6] == '1', ARGV[7] or ''
redis.call('DEL', key)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local e = now + 600000
local listed = kind == 'gone' and readers + 15 or 0
local names = {}
for i = 1, listed do names[i] = 'r:g' .. i end
for i = 1, readers do
  local ids, field = string.rep('+x000000000000000', 8), 'r:' .. string.format('%033d', i)
    local keeper = kind == 'kept' and 'P8:' .. i or '-'
    local meta = string.find(kind, 'meta') and ' ' .. string.rep('m', 1024) or ''
  local ends = string.find(kind, 'over') and now - 1 or e
  local hold = table.concat({ends, 1, '18000000000' .. 10000 + i, now, keeper, ids}, ' ') .. meta
  redis.call('HSET', key, field, hold)
  names[#names + 1] = field
end
for i = 0, math.ceil(#names / 16) - 1 do
    local part = table.concat(names, ' ', 16 * i + 1, math.min(16 * i + 16, #names))
    redis.call('HSET', key, 'm', #names, 'm:' .. i, part .. ' ')
end
for i = 1, waiters do
  local id, proxy, until_ = string.format('w%015d', i), 'P' .. i % 100, e
  if dead == 'deadline' then until_ = now - 1 end
  if dead == 'proxy' then proxy = 'D' .. i end
  local seq = i * step
  if i == 1 then seq = 1 end
  local entry = table.concat({'w', id, proxy, until_, 10000, '-', 40, string.rep('t', 40)}, ' ')
  redis.call('HSET', key, 'q:' .. seq, entry, 'i:' .. id, seq)
end
for i = 0, 99 do redis.call('HSET', key, 'p:P' .. i, e) end
if writer then
  redis.call('HSET', key, 'o', 'W', 'w', e .. ' 1 1800000000000000 ' .. now .. ' - +wwwwwwwwwwwwwwww')
end
local z, ze = 0, 0
if offered then z, ze = waiters * step + 1, now - 1 end
local last = readers > 0 and not string.find(kind, 'over') and e or 0
local state = {readers, 1, waiters * step + 1, waiters, z, ze, e, last}
redis.call('HSET', key, 'v', '1', 's', table.concat(state, ' '))
redis.call('PEXPIREAT', key, e)
collectgarbage() -- what this leaves is not to be the next script's work
return redis.call('HLEN', key)
`

// longScript is a script that has much to do.
type longScript struct {
	name  string
	calls int // of Redis, at most
	seed  string
	run   func()
	most  float64 // of the time of 12,000 calls; 0: 1.2
}

// Of the time of 12,000 calls.
const (
	short = 0.75 // those that go on in a next script
	much  = 1.6  // those that end a thousand holds; they take 1.2 of it at most where nothing else runs
)

// longScripts are those that have most to do, whatever clients have made of a lock: with all its readers and
// waiters, with waiters whose proxies have gone, or with a queue that is nearly all holes.
func longScripts(l *teller) []longScript {
	both := []string{rig.LockKey, fenceKey}
	first := fmt.Sprintf("%033d", 1)
	calls := 0
	id := func() string { calls++; return fmt.Sprintf("x%015d", calls) }
	acquire := func(token, mode string) func() {
		return func() {
			l.run(scripts.Acquire, both, token, "1000", mode, id(), "0", "P1", "60000",
				"10000 2000", l.publish())
		}
	}
	release := func() { l.run(scripts.Release, both, "W", "", id(), "P1", l.publish()) }
	brk := func() { l.run(breakScript, both, "P1", l.publish(), "grant", id()) }
	inspect := func() { l.run(scripts.Inspect, both[:1]) }
	return []longScript{
		{name: "INFO, readers and waiters", calls: 14, seed: "1000 10000 1 alive 0 0", run: inspect},
		{name: "INFO, dead waiters", calls: 507, seed: "0 10000 1 proxy 1 0", run: inspect},
		{name: "INFO, readers with a long META", calls: 8, seed: "1000 10000 1 alive 0 0 meta",
			run: inspect, most: short},
		{name: "BREAK, readers and waiters", calls: 26, seed: "1000 10000 1 alive 0 0", run: brk, most: much},
		// a thousand keepers are told
		{name: "BREAK, readers that are kept", calls: 17, seed: "1000 10000 1 alive 0 0 kept",
			run: brk, most: much},
		{name: "BREAK, readers with a long META", calls: 10, seed: "1000 10000 1 alive 0 0 meta",
			run: brk, most: short},
		{name: "a reader wants to write, long META", calls: 15, seed: "1000 9000 1 alive 0 0 meta",
			run: acquire(first, "w"), most: short},
		{name: "one reader more, full, long META", calls: 9, seed: "2000 0 1 alive 0 0 meta",
			run: acquire("more", "r"), most: short},
		// and dropped, once
		{name: "readers whose leases are over, long META", calls: 90, seed: "1000 0 1 alive 0 0 over-meta",
			run: acquire("more", "r"), most: much},
		{name: "BREAK, dead waiters", calls: 10, seed: "0 10000 1 proxy 1 0", run: brk},
		{name: "a reader wants to write", calls: 13, seed: "1000 9000 1 alive 0 0", run: acquire(first, "w")},
		{name: "one reader more", calls: 6, seed: "1000 9000 1 alive 0 0", run: acquire("more", "r")},
		{name: "one reader more, many gone", calls: 9, seed: "1000 0 1 alive 0 0 gone",
			run: acquire("more", "r")},
		{name: "readers whose leases are over", calls: 20, seed: "1000 9000 1 alive 0 0 over",
			run: acquire("more", "r")},
		{name: "release, proxies dead", calls: 12, seed: "0 10000 1 proxy 1 0", run: release},
		{name: "release, deadlines over", calls: 9, seed: "0 10000 1 deadline 1 0", run: release},
		{name: "release, holes", calls: 10, seed: "0 2 100000 proxy 1 0", run: release},
		{name: "release, dead waiters and holes", calls: 9, seed: "0 10000 10 deadline 1 0", run: release},
		{name: "acquire, dead waiters", calls: 1006, seed: "0 10000 1 proxy 0 0", run: acquire("n", "w")},
		{name: "acquire, offer not taken", calls: 1208, seed: "0 100 10 alive 0 1", run: acquire("n", "w")},
		{name: "acquire, many waiters with holes", calls: 6, seed: "0 9999 11 alive 1 0",
			run: acquire("n", "w")},
		{name: "acquire, some waiters with holes", calls: 708, seed: "0 200 1000 alive 1 0",
			run: acquire("n", "w")},
		{name: "acquire, queue full of the dead", calls: 2107, seed: "0 10000 1 deadline 1 0",
			run: acquire("n", "w")},
		{name: "cancel, dead waiters", calls: 11, seed: "0 10000 1 proxy 1 0", run: func() {
			l.run(scripts.Cancel, both, "W", "wwwwwwwwwwwwwwww", "P1", l.publish())
		}},
	}
}

// spends is what c does on the lock that it is meant for.
func (c *longScript) spends(t *testing.T, s *rig.Server) (calls, usec map[string]float64) {
	seed := append([]string{"EVAL", seedLock, "1", rig.LockKey}, strings.Fields(c.seed)...)
	if v := s.Ask(seed...); v.Err() != "" {
		t.Fatal(v.Err())
	}
	s.Ask("CONFIG", "RESETSTAT")
	c.run()
	return spent(t, s)
}

// No script has Redis do much, whatever is there: what it does not look at now it leaves to the next ones.
// TestLimitLongestScripts says how long they take.
func TestLongestScripts(t *testing.T) {
	s := rig.StartRedis(t)
	l := &teller{t: t, s: s, c: s.Connect()}
	defer l.c.Close()
	for _, c := range longScripts(l) {
		if calls, _ := c.spends(t, s); sum(calls) > c.calls {
			t.Errorf("%s: %d calls of Redis, want %d at most: %v", c.name, sum(calls), c.calls, calls)
		}
	}
}

// Behind many dead waiters stands one that is alive. It gets the lock soon after a release, although no
// script looks at all of them; so does one that comes later. R29
func TestHandOverBehindTheDead(t *testing.T) {
	s := rig.StartRedis(t)
	p := proxies.Start(t, s, 2)
	s.Ask("EVAL", seedLock, "1", rig.LockKey, "0", "9990", "1", "deadline", "1", "0")
	first := p[0].Begin(t.Context(), redlock.Acquire{Token: "first", Wait: time.Minute})
	proxies.Waiting(t, first)
	l := &teller{t: t, s: s, c: s.Connect()}
	defer l.c.Close()
	if got := l.tell("release W id00000000000001"); got != "1" {
		t.Fatalf("release: %s", got)
	}
	second := p[1].Begin(t.Context(), redlock.Acquire{Token: "second", Wait: time.Minute})
	for range 2 {
		var r proxies.Result
		select { // the second comes first if the machine stands still for as long as the first is offered it
		case r = <-first:
		case r = <-second:
		case <-time.After(rig.Patience):
			t.Fatal("nobody gets it")
		}
		if !r.OK || r.Err != nil {
			t.Fatalf("not granted: %v", r.Err)
		}
		if r := p[1].Lock(t.Context(), redlock.Acquire{Token: "third"}); r.OK || r.Err != nil {
			t.Errorf("LOCK of a lock that is held: %+v", r)
		}
		p[0].Unlock(r.Token)
	}
	s.Empty(t)
}

// A request that does not wait gets a lock that nobody holds and only dead clients wait for, in one answer.
func TestLockBehindTheDead(t *testing.T) {
	s := rig.StartRedis(t)
	p := proxies.Start(t, s, 1)[0]
	s.Ask("EVAL", seedLock, "1", rig.LockKey, "0", "10000", "1", "proxy", "0", "0")
	if r := p.Lock(t.Context(), redlock.Acquire{Token: "t"}); !r.OK || r.Err != nil {
		t.Errorf("LOCK: %+v", r)
	}
	p.Unlock("t")
	s.Empty(t)
}

// What each script does if it is not known yet who is first in the queue: nobody gets the lock, and it is
// not deleted, until that is known. Scripts look at two waiters here.
func TestFirstNotKnownYet(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		c := s.Connect()
		defer c.Close()
		l := &teller{t: t, s: s, c: c}
		both := []string{rig.LockKey, fenceKey}
		run := func(script scripts.Script, args ...string) string {
			script = looking(t, script, 7)
			s.Ask("SCRIPT", "LOAD", script.Source)
			v := l.run(script, both, args...)
			if script.Name == "acquire" {
				v = whole(v, args)
			}
			return l.show(v)
		}
		lock := func(token, id string, wait string) string {
			args := []string{token, "60000", "w", id, "0"}
			if wait != "" {
				args = append(args, "P"+id[:1], wait, "100", l.publish())
			}
			return run(scripts.Acquire, args...)
		}
		must := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		for _, end := range []string{"release", "break", "detach", "cancel"} {
			l.fences = nil
			keeper := "P8:k"
			hold := []string{"W", "60000", "w", "id0000000000000a", "0", "P8", "0", "100", l.publish()}
			if end == "detach" {
				hold = append(hold, keeper, "")
			}
			must(end+", the holder", run(scripts.Acquire, hold...)[:3], "[W ")
			for i := range 7 {
				lock(fmt.Sprint("dead", i), fmt.Sprintf("1%014d%s", i, end[:1]), "20")
			}
			lock("a", "2a"+end, "60000")
			time.Sleep(40 * time.Millisecond)
			got := ""
			switch end {
			case "release":
				got = run(scripts.Release, "W", "", "id0000000000000r", "P2", l.publish())
			case "break":
				got = run(breakScript, "P2", l.publish())
			case "detach":
				got = run(detachScript, "W", keeper, "P2", l.publish())
			case "cancel":
				got = run(scripts.Cancel, "W", "id0000000000000a", "P2", l.publish())
			}
			must(end, got, "1")
			must(end+", who does not wait", lock("n", "3n"+end, ""), "-3")
			must(end+", who comes then", lock("b", "4b"+end, "60000"), "[9 1 *]")
			for range 3 { // it asks again, as it was told
				if got = lock("a", "2a"+end, "60000"); strings.HasPrefix(got, "[a F") {
					break
				}
			}
			if !strings.HasPrefix(got, "[a F") {
				t.Errorf("%s, who is first: %s", end, got)
			}
			must(end+", who does not wait, then", lock("n", "5n"+end, ""), "nil")
			got = run(scripts.Release, "a", "", "id000000000000"+end[:2], "P4", l.publish())
			if !strings.HasPrefix(got, "[1 4b"+end) {
				t.Errorf("%s, who came then: %s", end, got)
			}
			must(end+", the last",
				run(scripts.Release, "b", "", "id000000000001"+end[:2], "P4", l.publish()), "1")
			if keys := s.Keys(); len(keys) != 0 {
				t.Errorf("%s left: %v", end, keys)
			}
		}
	})
}
