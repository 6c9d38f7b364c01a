package main

import (
	"fmt"
	"slices"
	"time"

	"lockproxy/integration/page"
	"lockproxy/integration/rig"
)

// seen is when, where and with what something was seen.
type seen struct {
	When    time.Time `json:"when"`
	Seed    uint64    `json:"seed,omitempty"`
	Command string    `json:"command"`
	Machine []string  `json:"machine"`
	Busy    string    `json:"busy"`
	Wrong   []string  `json:"wrong,omitempty"` // what must not be
}

// see begins one, with what else belongs to the machine.
func (o options) see(more ...string) seen {
	machine := append(page.Machine(), page.First("redis-server", "--version"))
	return seen{When: time.Now().Truncate(time.Second), Seed: o.seed, Command: o.command,
		Machine: append(machine, more...)}
}

// seeCluster begins one of a cluster.
func (o options) seeCluster() seen { return o.see(fmt.Sprint("cluster-node-timeout ", o.nodeTimeout)) }

// attempt runs f and ends what it has started.
func (v *seen) attempt(l *rig.OwnLife, f func()) error {
	before := page.UsageNow(0)
	err := l.Attempt(f)
	if err != nil {
		v.Wrong = append(v.Wrong, "it did not get to its end: "+err.Error())
	}
	v.Wrong = append(v.Wrong, l.End()...)
	v.Busy = before.Until(page.UsageNow(0))
	return err
}

// row is what came of one fault.
type row struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	seen
	Skipped string `json:"skipped,omitempty"` // why it was not run; then there is nothing else
	Lossy   bool   `json:"lossy,omitempty"`   // Redis itself may lose what it has acknowledged

	Promoted *float64  `json:"promoted,omitempty"` // ms from the fault to another master; nil: there was none
	Lasted   float64   `json:"lasted"`             // ms from the fault to what recovery is counted from
	Direct   pair      `json:"direct"`             // p99 of GETs straight at the other masters, ms
	Ways     []figures `json:"ways"`
	Notes    []string  `json:"notes,omitempty"`

	Earlier []row `json:"earlier,omitempty"` // rounds of the same fault before this one
}

// undrawn is the row without what only its plot shows, which is that of the last round.
func (r row) undrawn() row {
	r.Ways = slices.Clone(r.Ways)
	for i := range r.Ways {
		r.Ways[i].Rate = nil
	}
	return r
}

// rounds are all rounds of the fault, the row itself last.
func (r row) rounds() []row { return append(slices.Clone(r.Earlier), r) }

// wrong is what must not be, in any round.
func (r row) wrong() (all []string) {
	for _, round := range r.rounds() {
		all = append(all, round.Wrong...)
	}
	return all
}

// pair is a figure before the fault and during it; -1: there was nothing to measure.
type pair struct{ Before, During float64 }

// figures are those of one way.
type figures struct {
	Name string `json:"name"`
	verdict
	Errors map[string]int `json:"errors,omitempty"` // of struck clients, by kind
	Other  int            `json:"other"`            // errors of all other clients

	// When clients first had success again after the promotion, or after the end of the fault, in ms.
	First float64 `json:"first"` // the first of those who were there, -1: none
	Last  float64 `json:"last"`  // the last of them, -1: some had none
	Late  int     `json:"late"`  // how many had none
	New   float64 `json:"new"`   // a connection that was made after it, -1: none

	Visits  int     `json:"visits"`  // new connections since the fault began
	Refused int     `json:"refused"` // of them, in vain
	Longest float64 `json:"longest"` // the longest that a struck client had to wait for a reply, ms
	Others  pair    `json:"others"`  // p99 of the clients that are not struck, ms
	Rate    []point `json:"rate"`    // commands of struck clients that went well, over time
}

// point is a number of commands in the step that begins at a time, in seconds from the fault.
type point [2]float64

func ms(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// measure makes figures of what the clients of a scene noted.
func (s *scene) measure(r *row) {
	l, mark := s.load, s.mark()
	if promoted := time.Duration(s.promoted.Load()); promoted != 0 {
		f := ms(promoted - s.struck)
		r.Promoted = &f
	}
	r.Lasted = ms(mark - s.struck)
	for w, way := range l.ways {
		f, own := figures{Name: way.name, First: -1, Last: -1, New: -1, Errors: map[string]int{}}, l.of(w)
		f.verdict = s.judge(own)
		s.recovery(&f, w, own, mark)
		s.newcomers(&f, w, mark)
		f.Rate = rate(own, s.struckOnly(w), s.struck, l.ended)
		r.Ways = append(r.Ways, f)
	}
	var direct tails
	for _, o := range l.ops {
		if o.way == straight && o.outcome == acked {
			s.addTo(&direct, o.start, o.end)
		}
	}
	r.Direct = direct.p99()
}

// tails are the times of what began before the fault, and since.
type tails [2][]time.Duration

func (s *scene) addTo(t *tails, start, end time.Duration) {
	i := 0
	if start >= s.struck {
		i = 1
	}
	t[i] = append(t[i], end-start)
}

func (t *tails) p99() pair { return pair{percentile(t[0], 99), percentile(t[1], 99)} }

// struckOnly says of the workers of a way, by their number, which the fault strikes.
func (s *scene) struckOnly(w int) map[int]bool {
	hit := map[int]bool{}
	for _, k := range s.load.workers {
		hit[k.id] = hit[k.id] || k.way == w && s.hit(k)
	}
	return hit
}

// recovery finds when clients that were there had success again, what they were told, and what the others
// felt. BLPOP waits on purpose.
func (s *scene) recovery(f *figures, w int, ops []op, mark time.Duration) {
	hit, success := s.struckOnly(w), map[int]time.Duration{}
	var others tails
	for _, o := range ops {
		switch {
		case !hit[o.worker]:
			if o.outcome != acked && o.end >= s.struck {
				f.Other++
			}
			if o.verb != vPop {
				s.addTo(&others, o.start, o.end)
			}
		case o.end < s.struck:
		case o.outcome != acked:
			f.Errors[o.kind()]++
		case o.verb != vPop:
			f.Longest = max(f.Longest, ms(o.end-o.start))
			if at, ok := success[o.worker]; o.end >= mark && (!ok || o.end < at) {
				success[o.worker] = o.end
			}
		}
	}
	f.Others = others.p99()
	var went []float64
	for _, k := range s.load.workers {
		if k.way != w || k.pops() || !s.hit(k) {
			continue
		}
		if at, ok := success[k.id]; ok {
			went = append(went, ms(at-mark))
		} else {
			f.Late++
		}
	}
	if went != nil {
		f.First, f.Last = slices.Min(went), slices.Max(went)
	}
	if f.Late > 0 {
		f.Last = -1
	}
}

// newcomers finds when a new connection first had success, and how many had none.
func (s *scene) newcomers(f *figures, w int, mark time.Duration) {
	for _, o := range s.load.ops {
		if o.way != w || o.worker != guest || o.end < s.struck {
			continue
		}
		f.Visits++
		if o.outcome != acked {
			f.Refused++
			f.Errors["new connection: "+o.why]++
		} else if took := ms(o.end - mark); o.start >= mark && (f.New < 0 || took < f.New) {
			f.New = took
		}
	}
}

// percentile is one of times, in ms; -1 of none.
func percentile(all []time.Duration, p int) float64 {
	if len(all) == 0 {
		return -1
	}
	slices.Sort(all)
	return ms(all[(len(all)-1)*p/100])
}

// rateStep is how long the steps of a rate are.
const rateStep = 250 * time.Millisecond

// rate is how many commands of some workers went well in each step, from 2 s before the fault on.
func rate(ops []op, of map[int]bool, struck, end time.Duration) []point {
	from := max(0, struck-2*time.Second)
	steps := make([]point, max(0, int((end-from)/rateStep)))
	for i := range steps {
		steps[i][0] = (from + time.Duration(i)*rateStep - struck).Seconds()
	}
	for _, o := range ops {
		i := int((o.end - from) / rateStep)
		if o.outcome == acked && of[o.worker] && o.verb != vPop && o.end >= from && i < len(steps) {
			steps[i][1] += float64(time.Second / rateStep)
		}
	}
	return steps
}
