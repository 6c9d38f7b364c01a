package main

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"lockproxy/integration/page"
	"lockproxy/internal/resp"
)

// floodConns is over how many connections an overload comes, each of which owes one reply at most.
const floodConns = 4000

// shedName is a lockproxy that refuses what would be late.
const shedName = "lockproxy, shed-after 100ms"

// flood is what is offered, in parts of what Redis can do, and for how long at -requests 100000.
type flood struct {
	name  string
	part  float64
	lasts time.Duration
}

var floods = []flood{{"half, before", 0.5, time.Second}, {"twice", 2, 6 * time.Second},
	{"half, afterwards", 0.5, time.Second}}

const (
	refused figure = "refused"  // -BUSY
	unsent  figure = "not sent" // each connection owed a reply
)

// overload measures what becomes of commands when one Redis is asked for twice what it can do: straight, and
// through proxies without and with shed-after.
func overload(y *yard, rep *report) {
	one := y.redis(1)
	long := command(strings.Fields("RPUSH long" + strings.Repeat(" element", 1000))...)
	y.send(one[0].Addr, slices.Repeat([][]byte{long}, 20), 1, nil)
	slow := cycle([][]byte{command("LPOS", "long", "absent")}, 0) // half a millisecond of Redis
	dialled := func(w way, n int, good func([]byte) bool) *load {
		l := &load{pipeline: 1}
		for range n {
			y.check(l.dial(w.doors[0], slow, good))
		}
		return l
	}
	direct := way{name: "direct", doors: addrs(one), servers: one}
	few := dialled(direct, 8, resp.IsNull)
	defer few.close()
	s, err := few.run(max(100, y.o.requests/50))
	y.check(err)
	capacity := s[rate]
	ways := []way{direct, y.startLockproxy(oneProxy, one),
		y.startLockproxy(shedName, one, "--shed-after", "100ms")}
	r := results{}
	y.rounds(r, ways, []string{"overload"}, func(_ int, w way) sample {
		var busy []bool // of each reply
		l := dialled(w, min(floodConns, y.o.most), func(reply []byte) bool {
			busy = append(busy, bytes.HasPrefix(reply, []byte("-BUSY ")))
			return busy[len(busy)-1] || resp.IsNull(reply)
		})
		defer l.close()
		for _, f := range floods {
			lasts := f.lasts * time.Duration(y.o.requests) / 100000
			n := max(1, int(f.part*capacity*lasts.Seconds()))
			busy = nil
			r.add(f.name, w.name, y.costed(w, func() (sample, int) {
				t := timetable{time.Now(), lasts / time.Duration(n)}
				took, err := l.offer(t, n)
				y.check(err)
				each := func(n int) float64 { return float64(n) / time.Since(t.begun).Seconds() }
				answers, i := len(took), -1
				took = slices.DeleteFunc(took, func(time.Duration) bool { i++; return busy[i] })
				s := timesOf(took, each(len(took)))
				s[refused], s[unsent] = each(answers-len(took)), each(n-answers)
				s["part"] = s[rate] / capacity
				for _, p := range w.proxies {
					s["MiB"] = float64(p.RSS(y)) / (1 << 20)
				}
				return s, n
			}))
		}
		return nil
	})
	var whats []string
	for _, f := range floods {
		whats = append(whats, f.name)
	}
	rep.printf("\n## Overload\n\n%s\nRedis can do %.0f of a slow command (LPOS) a second. Twice as many are "+
		"offered, whatever becomes of those before, over %d\n"+
		"connections; one that finds none of them idle is not sent. Before and afterwards it is half of\n"+
		"what Redis can do. Times are those of what is served, from when it was due.\n",
		r.table(whats, ways, whole("served/s", rate), hundredths("of what it can do", "part"),
			whole("refused/s", refused), whole("not sent/s", unsent), whole("p50 µs", p50),
			whole("p99 µs", p99), hundredths("CPU µs a command", cpu), whole("MiB")), capacity, floodConns)
	for _, who := range []string{oneProxy, shedName} {
		rep.hold(page.AtLeast(0.9, "%.2f", "overload, "+who+": served, against straight at Redis",
			r.versus(floods[1].name, who, direct.name, rate)))
	}
	rep.hold(page.AtMost(300_000, "%.0f", "overload, "+shedName+": p99 µs of what is served",
		r.spread(floods[1].name, shedName, p99)),
		page.AtMost(0, "%.0f", "overload, "+shedName+": refused a second afterwards",
			r.spread(floods[2].name, shedName, refused)))
}
