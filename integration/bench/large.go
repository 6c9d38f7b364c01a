package main

import (
	"fmt"
	"time"

	"lockproxy/integration/page"
	"lockproxy/integration/rig"
)

const (
	largeKeys    = 1_000_000
	largeKeySize = 100 // bytes
)

// spreading is where the keys of a large command lie.
type spreading struct {
	name   string
	key    string // format of a key of largeKeySize bytes
	single bool   // before one Redis, not a cluster
}

var spreadings = []spreading{
	{"one slot", "{large}%093d", false},
	{"all slots", "%0100d", false},
	{"all slots of one Redis", "%0100d", true},
}

// large measures DEL of a million keys, none of which is there, so that Redis itself has least to do. All
// keys of one slot are deleted straight at their master; those of all slots, which no cluster takes in one
// command, at a plain Redis. A second lockproxy has that one behind it, and need not cut the command.
func large(y *yard, rep *report) {
	r := results{}
	var whats []string
	direct, proxy := way{name: "direct"}, y.lockproxy[0]
	beforeOne := y.startLockproxy(oneProxy, y.plain[:1])
	for _, s := range spreadings {
		words := []string{"DEL"}
		for i := range largeKeys {
			words = append(words, fmt.Sprintf(s.key, i))
		}
		request, ways := command(words...), []way{direct, proxy}
		ways[0].doors = addrs(y.plain[:1])
		if s.key[0] == '{' {
			ways[0].doors[0] = y.masters[nodeOf(words[1])].Addr
		} else if s.single {
			ways[1] = beforeOne
		}
		y.rounds(r, ways, []string{s.name}, func(_ int, w way) sample {
			c := rig.Connect(y, w.doors[0])
			defer c.Close()
			return y.costed(w, func() (sample, int) {
				begun := time.Now()
				_, err := c.Write(request)
				y.check(err)
				reply, err := c.Receive(rig.Patience)
				y.check(err)
				if reply.Text != "0" {
					y.Fatalf("%s, %s: %s", w.name, s.name, reply)
				}
				return timesOf([]time.Duration{time.Since(begun)}, 0), 1
			})
		})
		whats = append(whats, s.name)
		rep.hold(page.AtMost(1.5, "%.2f",
			fmt.Sprintf("DEL of %d keys of %s: time, against Redis itself", largeKeys, s.name),
			r.versus(s.name, oneProxy, direct.name, p50)))
	}
	rep.printf("\n## DEL of %d keys of %d bytes\n\n%s\n", largeKeys, largeKeySize,
		r.table(whats, []way{direct, proxy}, whole("µs", p50),
			column{head: "times", format: "%.2f", of: p50, by: "base"},
			whole("proxy's CPU µs", cpu)))
}
