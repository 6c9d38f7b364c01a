package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/scripts"
	"lockproxy/redlock/single"
)

const (
	scriptLocks = 4000 // locks that are taken and freed in a round
	scriptConns = 50   // connections
	scriptBatch = 16   // commands at a time over each
	// scriptRounds is how many rounds there are for one of -rounds: they are short.
	scriptRounds = 4
	// residents keep the dictionaries of the server at their size, whoever comes and goes.
	residents = 20000
)

// Scripts that others use, for comparison.
const (
	compareName   = "compare and delete"
	trivialScript = "return 1"
	// compareScript deletes a key if it has the value: the release of SET NX PX.
	compareScript = `if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`
	// redissonLock and redissonUnlock do what those of Redisson's RLock do: a hash counts
	// how often its one field, the owner, holds the lock.
	redissonLock = `if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])`
	redissonUnlock = `if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], ARGV[1])
return 1`
)

// phase is one command, sent for lock after lock.
type phase struct {
	name    string
	addr    string
	counted string // under this name by Redis
	request func(lock string) []byte
	good    func(reply []byte) bool
}

// scriptCosts measures what a LOCK and an UNLOCK that nobody waits for cost Redis, by its own
// account (INFO commandstats), beside other ways to lock. All take and free the
// same number of locks on the same server, round by round.
func scriptCosts(ctx context.Context, y *yard, o options, rep *report) error {
	addr, pid, err := y.startRedis(ctx)
	if err != nil {
		return err
	}
	ways, err := y.scriptWays(ctx, addr)
	if err != nil {
		return err
	}
	counter := newCounter([]string{addr})
	defer counter.close()
	if err := settle(ctx, addr); err != nil {
		return err
	}
	for _, way := range ways { // not counted: the proxy loads its scripts, and makes the fences
		for _, p := range way {
			if _, err := p.send(ctx); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	r := results{}
	rounds := scriptRounds * o.rounds
	for round := range rounds {
		progress("round %d of %d: scripts", round+1, rounds)
		for _, way := range rotated(ways, round) {
			for _, p := range way {
				s, err := p.measure(ctx, counter, pid)
				if err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				r.add("scripts", p.name, s)
			}
		}
	}
	printScripts(rep, r, ways)
	if y.binary == "" {
		return nil
	}
	for i, limit := range []float64{1.7, 1.3} {
		p := ways[len(ways)-1][i]
		rep.hold(atMost(limit, "%.2f",
			p.name+": time of Redis by its own account, against compare-and-delete",
			r.versus("scripts", p.name, compareName, account)))
	}
	return nil
}

// scriptWays are the ways to take a lock and to free it, each in phases; lockproxy's last.
func (y *yard) scriptWays(ctx context.Context, addr string) ([][]phase, error) {
	token := redlock.NewToken()
	px := fmt.Sprint(lease.Milliseconds())
	var failed error
	// script is the EVALSHA of a script; args come after the keys.
	script := func(name, source string, keys func(lock string) []string, good string, args ...string) phase {
		sha, err := ask(ctx, addr, "script", "load", source)
		if err != nil {
			failed = err
		}
		return phase{name, addr, "evalsha", func(lock string) []byte {
			k := keys(lock)
			words := append([]string{"EVALSHA", fmt.Sprint(sha), fmt.Sprint(len(k))}, k...)
			return command(nil, append(words, args...)...)
		}, exactly(good)}
	}
	none := func(string) []string { return nil }
	one := func(lock string) []string { return []string{"bench:" + lock} }
	two := func(lock string) []string { return []string{"bench:" + lock, "bench:channel:{" + lock + "}"} }
	ways := [][]phase{
		{script("return 1", trivialScript, none, ":1\r\n")},
		{
			{"SET NX PX", addr, "set",
				func(lock string) []byte { return command(nil, "SET", "bench:"+lock, token, "NX", "PX", px) },
				exactly("+OK\r\n")},
			script(compareName, compareScript, one, ":1\r\n", token),
		},
		{
			script("Redisson's lock", redissonLock, one, "$-1\r\n", px, token+":1"),
			script("Redisson's unlock", redissonUnlock, two, ":1\r\n", "0", px, token+":1"),
		},
	}
	if failed != nil || y.binary == "" {
		return ways, failed
	}
	for _, s := range scripts.All() {
		if _, err := ask(ctx, addr, "script", "load", s.Source); err != nil {
			return nil, err
		}
	}
	l := locks.New(unsharded{}, locks.Options{})
	ways = append(ways, []phase{
		{"acquire.lua, direct", addr, "evalsha", func(lock string) []byte {
			return lockRequest(l, lock, token).req
		}, lockedOrFreed},
		{"release.lua, direct", addr, "evalsha", func(lock string) []byte {
			return unlockRequest(l, lock, token).req
		}, exactly(":1\r\n")},
	})
	proxy, _, err := y.startLockproxy(ctx, []string{addr}, false)
	return append(ways, []phase{
		{"LOCK", proxy.addr, "evalsha",
			func(lock string) []byte { return command(nil, "LOCK", lock, "TOKEN", token, "PX", px) },
			lockedOrFreed},
		{"UNLOCK", proxy.addr, "evalsha",
			func(lock string) []byte { return command(nil, "UNLOCK", lock, token) },
			exactly(":1\r\n")},
	}), err
}

// unsharded is all that a Locker needs to know of one Redis to make requests.
type unsharded struct{ single.Upstream }

func (unsharded) Sharded() bool        { return false }
func (unsharded) Parted(int) time.Time { return time.Time{} }
func (unsharded) DeleteIf() string     { return "" }
func (unsharded) Evicting() bool       { return false }
func (unsharded) Evicts(int) error     { return nil }

// exactly accepts one reply.
func exactly(reply string) func([]byte) bool {
	return func(b []byte) bool { return string(b) == reply }
}

// settle gives a server keys that stay.
func settle(ctx context.Context, addr string) error {
	var all [][]byte
	for i := range residents {
		all = append(all, command(nil, "SET", fmt.Sprintf("bench:resident:%06d", i), "x", "EX", "86400"))
	}
	l := load{pipeline: 100}
	defer l.close()
	if err := l.dial(addr, inTurn(all, l.pipeline), nil); err != nil {
		return err
	}
	_, err := l.run(ctx, residents/l.pipeline)
	return err
}

// send sends the command for each lock once: Redis does nothing else meanwhile.
func (p phase) send(ctx context.Context) (sample, error) {
	var all [][]byte
	for i := range scriptLocks {
		all = append(all, p.request(fmt.Sprintf("job:%06d", i)))
	}
	l := load{pipeline: scriptBatch, even: true}
	defer l.close()
	for ; len(all) > 0; all = all[scriptLocks/scriptConns:] {
		if err := l.dial(p.addr, inTurn(all[:scriptLocks/scriptConns], l.pipeline), p.good); err != nil {
			return sample{}, err
		}
	}
	return l.run(ctx, scriptLocks/l.pipeline)
}

// measure sends and takes what that costs Redis.
func (p phase) measure(ctx context.Context, counter *counter, pid int) (sample, error) {
	before, err := counter.spent(ctx)
	if err != nil {
		return sample{}, err
	}
	used, err := cpuTime(pid)
	if err != nil {
		return sample{}, err
	}
	s, err := p.send(ctx)
	if err != nil {
		return sample{}, err
	}
	usedAfter, err := cpuTime(pid)
	if err != nil {
		return sample{}, err
	}
	after, err := counter.spent(ctx)
	if err != nil {
		return sample{}, err
	}
	s.redis = (usedAfter - used) / scriptLocks
	s.account, err = accounted(before[p.counted], after[p.counted], scriptLocks)
	return s, err
}

// accounted is what a server says that each of the calls took between two looks at its statistics.
func accounted(before, after spending, calls int) (each time.Duration, err error) {
	if n := after.calls - before.calls; n != calls {
		return 0, fmt.Errorf("Redis ran %d commands instead of %d", n, calls)
	}
	return time.Duration(after.usec-before.usec) * time.Microsecond / time.Duration(calls), nil
}

func printScripts(rep *report, r results, ways [][]phase) {
	t := table{{"", "least µs", "median µs", "of `return 1`", "all CPU of Redis, µs"}}
	for _, way := range ways {
		for _, p := range way {
			t = append(t, []string{
				p.name,
				fmt.Sprintf("%.2f", r.least("scripts", p.name, account)),
				fmt.Sprintf("%.2f", r.median("scripts", p.name, account)),
				fmt.Sprintf("%.2f", r.ratio("scripts", p.name, ways[0][0].name, account)),
				fmt.Sprintf("%.2f", r.median("scripts", p.name, redisCPU)),
			})
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## What a lock that nobody waits for costs Redis\n\n%s\n", t)
	fmt.Fprintf(&b,
		"One command, by INFO commandstats, over rounds of %d locks that are taken and freed again, %d\n"+
			"commands at a time over each of %d connections. Redis takes the time, so that whatever\n"+
			"interrupts it counts. Its CPU by the operating system includes reading and writing.\n",
		scriptLocks, scriptBatch, scriptConns)
	rep.printf("%s", b.String())
}
