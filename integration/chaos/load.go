package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// way is one way to the same Redis.
type way struct {
	name  string
	door  func(worker int) door
	fresh func() door                    // of a program that has just started
	spot  func(worker, shard int) string // what a fault may strike that a worker depends on
}

// worker is one client. It works on one shard, and does one thing after the other.
type worker struct {
	id, way, shard int
	spot           string
	mix            []verb // what it does in turn
	door           door
	tags           []string     // of the shard
	last           op           // its last SET that was acknowledged
	good           atomic.Int64 // when a command last succeeded
}

const (
	// guest is the worker of reads that are none of the workers': each over a connection of its own, or
	guest = -1
	// straight at a master, which is the way of those.
	straight = -1
)

// plan is how much load there is.
type plan struct {
	mixing int           // workers of a way at a shard, beside one that pushes and one that pops
	pause  time.Duration // from one command of a worker to the next
	visits time.Duration // from one new connection to the next; 0: none
}

// load is what all clients do, until it is stopped.
type load struct {
	plan
	name   string // begins the keys
	ways   []way
	tags   [][]string // hash tags, by shard
	probed []string   // masters that are asked straight, by shard; "": it is not
	struck int        // the shard whose fault is watched, where new connections read

	begun   time.Time
	ended   time.Duration // when it was stopped
	workers []*worker
	quit    chan struct{}
	tasks   sync.WaitGroup

	mu  sync.Mutex
	ops []op
}

func (l *load) now() time.Duration { return time.Since(l.begun) }

// begin starts all clients.
func (l *load) begin() {
	l.begun, l.quit = time.Now(), make(chan struct{})
	for w, way := range l.ways {
		id := 0
		for shard := range l.tags {
			for n := range l.mixing + 2 {
				k := &worker{id: id, way: w, shard: shard, tags: l.tags[shard], door: way.door(id),
					spot: way.spot(id, shard), mix: mixes[max(0, n-l.mixing+1)]}
				l.workers = append(l.workers, k)
				id++
			}
		}
		if l.plan.visits > 0 {
			l.tasks.Go(func() { l.visit(w) })
		}
	}
	for _, k := range l.workers {
		l.tasks.Go(func() { l.work(k) })
	}
	for shard, addr := range l.probed {
		if addr != "" {
			l.tasks.Go(func() { l.probe(shard, addr) })
		}
	}
}

// end stops them and waits until each has its last reply.
func (l *load) end() {
	l.ended = l.now()
	close(l.quit)
	l.tasks.Wait()
	for _, k := range l.workers {
		k.door.close()
	}
}

// paced calls f again and again, one call pause after the other, until the load ends.
func (l *load) paced(pause time.Duration, f func(n int)) { paced(l.quit, pause, f) }

// paced does so until quit is closed.
func paced(quit chan struct{}, pause time.Duration, f func(n int)) {
	due := time.Now()
	if pause > 0 { // not all of them at the same time
		due = due.Add(rand.N(pause))
	}
	for n := 0; ; n++ {
		select {
		case <-quit:
			return
		case <-time.After(time.Until(due)):
		}
		f(n)
		if due = due.Add(pause); due.Before(time.Now()) {
			due = time.Now()
		}
	}
}

// mixes are what workers do: most of them something of everything, and two at each shard push to a queue, and
// pop from it.
var mixes = [][]verb{{vSet, vGet, vIncr, vGet, vPush, vGet, vMulti, vGet, vEval, vGet}, {vQueue}, {vPop}}

// pops says whether the worker waits on purpose.
func (k *worker) pops() bool { return k.mix[0] == vPop }

// work is the life of a worker.
func (l *load) work(k *worker) {
	pause := l.pause
	if k.pops() {
		pause = 0
	}
	l.paced(pause, func(n int) { l.do(k, l.next(k, n)) })
}

// listed is how often a worker pushes onto one list.
const listed = 40

// next is what a worker does as its n-th.
func (l *load) next(k *worker, n int) op {
	turn, number := n/len(k.mix), strconv.Itoa(n)
	key := func(turn int, name string) string {
		return fmt.Sprintf("{%s}%s:%d:%s", k.tags[turn%len(k.tags)], l.name, k.way, name)
	}
	own := func(turn int, name string) string { return key(turn, fmt.Sprintf("%d:%s", k.id, name)) }
	o := op{verb: k.mix[n%len(k.mix)], key: own(turn, number), elems: []string{number}}
	switch o.verb {
	case vIncr:
		o.elems = nil
	case vGet:
		o.elems = nil
		if k.last.key != "" { // else nothing is there
			o.key, o.elems = k.last.key, k.last.elems
		}
	case vPush, vMulti, vEval:
		o.key = own(turn/listed, fmt.Sprint("l", turn/listed))
		if o.verb != vPush {
			o.elems = append(o.elems, number+"b")
		}
	case vQueue, vPop:
		o.key = key(0, fmt.Sprint("q", k.shard))
	}
	return o
}

// do does one thing and notes what came of it.
func (l *load) do(k *worker, o op) {
	o.way, o.worker, o.start = k.way, k.id, l.now()
	a, err := k.door.run(o.commands()...)
	o.end = l.now()
	o.told(a, err)
	if o.outcome == acked {
		k.good.Store(int64(o.end))
	} else {
		time.Sleep(10 * time.Millisecond) // as clients do, more or less
	}
	if o.outcome == acked && o.verb == vSet {
		k.last = o
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, o)
}

// visit has programs start again and again which read one key and end.
func (l *load) visit(w int) {
	var guests sync.WaitGroup
	defer guests.Wait()
	l.paced(l.plan.visits, func(int) {
		guests.Go(func() {
			k := &worker{id: guest, way: w, door: l.ways[w].fresh()}
			defer k.door.close()
			l.do(k, l.nothing(l.struck))
		})
	})
}

// probe asks a master straight, over one connection, as a measure of what it and the machine can do.
func (l *load) probe(shard int, addr string) {
	k := &worker{id: guest, way: straight, door: &plain{addr: addr}}
	defer k.door.close()
	l.paced(10*time.Millisecond, func(int) { l.do(k, l.nothing(shard)) })
}

// nothing is a GET of a key that is not there.
func (l *load) nothing(shard int) op {
	return op{verb: vGet, key: "{" + l.tags[shard][0] + "}" + l.name + ":none"}
}

// heard says whether every worker of a way that strikes is true of, has had success since then.
func (l *load) heard(w int, since time.Duration, strikes func(*worker) bool) bool {
	return !slices.ContainsFunc(l.workers, func(k *worker) bool {
		return k.way == w && !k.pops() && strikes(k) && k.good.Load() <= int64(since)
	})
}

// of are the ops of the workers of a way.
func (l *load) of(w int) (own []op) {
	for _, o := range l.ops {
		if o.way == w && o.worker != guest {
			own = append(own, o)
		}
	}
	return own
}
