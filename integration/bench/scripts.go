package main

import (
	"embed"
	"fmt"
	"slices"

	"lockproxy/integration/page"
	"lockproxy/redlock"
)

const (
	phaseConns = 50 // connections
	phaseBatch = 16 // commands at a time over each
	// scriptRounds is how many rounds there are for one of -rounds: they are short.
	scriptRounds = 4
	// residents keep the dictionaries of the server at their size, whoever comes and goes.
	residents = 20000
)

const (
	compareName = "compare and delete"
	trivialName = "return 1"
)

// others are scripts that others use, for comparison.
//
//go:embed lua
var others embed.FS

func lua(name string) string {
	text, _ := others.ReadFile("lua/" + name + ".lua")
	return string(text)
}

// phaseOf is about n, as many for each connection of a phase, in whole batches.
func phaseOf(n int) int {
	const least = phaseConns * phaseBatch
	return max(1, n/least) * least
}

// phase is one command, sent for lock after lock.
type phase struct {
	way
	counted string // under this name by Redis
	request func(lock string) []byte
	good    func(reply []byte) bool
}

// account is what one took by the account of Redis.
const account figure = "account"

// scriptCosts measures what a LOCK and an UNLOCK that nobody waits for cost Redis, by its own
// account (INFO commandstats), beside other ways to lock. All take and free the
// same number of locks on the same server, round by round.
func scriptCosts(y *yard, rep *report) {
	one, count := y.redis(1), phaseOf(y.o.requests/25)
	direct, proxy := way{doors: addrs(one), servers: one}, y.startLockproxy(oneProxy, one)
	token := redlock.NewToken()
	names := func(w way, name string) way { w.name, w.base = name, trivialName; return w }
	// script is the EVALSHA of a script with that many keys.
	script := func(name, source string, keys int, good string, args ...string) phase {
		sha := one[0].Do(y, "SCRIPT", "LOAD", source).Text
		return phase{names(direct, name), "evalsha", func(lock string) []byte {
			k := []string{"bench:" + lock, "bench:channel:{" + lock + "}"}[:keys]
			return command(slices.Concat([]string{"EVALSHA", sha, fmt.Sprint(keys)}, k, args)...)
		}, exactly(good)}
	}
	steps := [][]phase{
		{script(trivialName, "return 1", 0, ":1\r\n")},
		{
			{names(direct, "SET NX PX"), "set",
				func(lock string) []byte { return command("SET", "bench:"+lock, token, "NX", "PX", px) },
				exactly("+OK\r\n")},
			script(compareName, lua("compare"), 1, ":1\r\n", token),
		},
		{
			script("Redisson's lock", lua("redisson-lock"), 1, "$-1\r\n", px, token+":1"),
			script("Redisson's unlock", lua("redisson-unlock"), 2, ":1\r\n", "0", px, token+":1"),
		},
		{
			{names(proxy, "LOCK"), "evalsha",
				func(lock string) []byte { return verbs(proxy).take(lock, token) }, lockedOrFreed},
			{names(proxy, "UNLOCK"), "evalsha",
				func(lock string) []byte { return verbs(proxy).free(lock, token) }, exactly(":1\r\n")},
		},
	}
	var settled [][]byte
	for i := range residents {
		settled = append(settled, command("SET", fmt.Sprintf("bench:resident:%06d", i), "x", "EX", "86400"))
	}
	y.send(one[0].Addr, settled, 100, nil)
	r, rounds, what := results{}, scriptRounds*y.o.rounds, []string{"a command"}
	for round := range rounds + 1 {
		y.progress("round %d of %d: scripts", round, rounds)
		for _, way := range rotated(steps, round) {
			for _, p := range way {
				s := y.phase(p, count)
				if round > 0 { // in the first the proxy loads its scripts, and makes the fences
					s[account] = s[usecOf(p.counted)]
					if n := s[ran(p.counted)]; n != 1 {
						y.Fatalf("%s: Redis ran %v commands instead of 1", p.name, n)
					}
					r.add(what[0], p.name, s)
				}
			}
		}
	}
	var all []way
	for _, p := range slices.Concat(steps...) {
		all = append(all, p.way)
	}
	rep.printf("\n## What a lock that nobody waits for costs Redis\n\n%s\n"+
		"One command, by INFO commandstats, over rounds of %d locks that are taken and freed again, %d\n"+
		"commands at a time over each of %d connections. Redis takes the time, so that whatever\n"+
		"interrupts it counts. Its CPU by the operating system includes reading and writing.\n",
		r.table(what, all,
			column{head: "least µs", format: "%.2f", of: account, pick: slices.Min[[]float64]},
			hundredths("median µs", account),
			ofBase("`return 1`", account),
			hundredths("all CPU of Redis, µs", redisCPU)), count, phaseBatch, phaseConns)
	for i, limit := range []float64{1.7, 1.3} {
		who := []string{"LOCK", "UNLOCK"}[i]
		rep.hold(page.AtMost(limit, "%.2f",
			who+": time of Redis by its own account, against compare-and-delete",
			r.versus(what[0], who, compareName, account)))
	}
}

// phase sends the command for each of so many locks once: Redis does nothing else meanwhile.
func (y *yard) phase(p phase, count int) sample {
	l := load{pipeline: phaseBatch, even: true}
	defer l.close()
	for conn := range phaseConns {
		var all [][]byte
		for i := range count / phaseConns {
			all = append(all, p.request(fmt.Sprintf("job:%06d", conn*count/phaseConns+i)))
		}
		y.check(l.dial(p.doors[0], inTurn(all, phaseBatch), p.good))
	}
	return y.metered(p.way, &l, count/phaseBatch)
}
