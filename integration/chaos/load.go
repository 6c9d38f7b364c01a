package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// way is one way to the same Redis.
type way struct {
	name  string
	door  func(worker int) door          // for a worker
	fresh func() (d door, close func())  // for one command of a program that has just started
	spot  func(worker, shard int) string // what a fault may strike that it depends on
	close func()
}

// worker is one client. It works on one shard, and does one thing after the other.
type worker struct {
	id, way, shard int
	spot           string
	role           role
	door           door
	tags           []string // of the shard
	last           op       // its last SET that was acknowledged
}

type role int

const (
	mixes role = iota
	pushes
	pops
)

// visit is one command over a connection of its own.
type visit struct {
	way        int
	start, end time.Duration
	why        string // "": it went well
}

// probe is a GET straight at a master.
type probe struct {
	shard       int
	start, took time.Duration
}

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
	nodes  []string   // the masters, by shard, when it began
	struck int        // the shard whose fault is watched, where new connections read

	begun   time.Time
	ended   time.Duration // when it was stopped
	workers []*worker
	quit    chan struct{}
	tasks   sync.WaitGroup
	good    [][]atomic.Int64 // by way and worker: when a command last succeeded

	mu     sync.Mutex
	ops    []op
	visits []visit
	probes []probe
}

func (l *load) now() time.Duration { return time.Since(l.begun) }

// begin starts all clients.
func (l *load) begin() {
	l.begun, l.quit = time.Now(), make(chan struct{})
	for w := range l.ways {
		l.good = append(l.good, nil)
		for shard := range l.tags {
			for n := range l.mixing + 2 {
				k := &worker{id: len(l.good[w]), way: w, shard: shard, tags: l.tags[shard], role: mixes}
				if n >= l.mixing {
					k.role = pushes + role(n-l.mixing)
				}
				k.door, k.spot = l.ways[w].door(k.id), l.ways[w].spot(k.id, shard)
				l.workers = append(l.workers, k)
				l.good[w] = append(l.good[w], atomic.Int64{})
			}
		}
	}
	for _, k := range l.workers {
		l.tasks.Go(func() { l.work(k) })
	}
	for w := range l.ways {
		if l.plan.visits > 0 {
			l.tasks.Go(func() { l.visit(w) })
		}
	}
	for shard, addr := range l.nodes {
		l.tasks.Go(func() { l.probe(shard, addr) })
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
	for _, w := range l.ways {
		w.close()
	}
}

// paced calls f again and again, one call pause after the other, until the load ends.
func (l *load) paced(pause time.Duration, f func(n int)) {
	due := time.Now()
	if pause > 0 { // not all of them at the same time
		due = due.Add(rand.N(pause))
	}
	for n := 0; ; n++ {
		select {
		case <-l.quit:
			return
		case <-time.After(time.Until(due)):
		}
		f(n)
		if due = due.Add(pause); due.Before(time.Now()) {
			due = time.Now()
		}
	}
}

func (l *load) work(k *worker) {
	switch k.role {
	case mixes:
		l.paced(l.pause, func(n int) { l.do(k, l.mixed(k, n)) })
	case pushes:
		l.paced(l.pause, func(n int) {
			e := fmt.Sprintf("%d", n)
			l.do(k, op{verb: vQueue, key: l.queueOf(k), elems: []string{e}})
		})
	case pops:
		l.paced(0, func(int) { l.do(k, op{verb: vPop, key: l.queueOf(k)}) })
	}
}

// queueOf is the queue of the two workers of a way at a shard.
func (l *load) queueOf(k *worker) string {
	return fmt.Sprintf("{%s}%s:%d:q%d", k.tags[0], l.name, k.way, k.shard)
}

// mix is what a worker does in turn.
var mix = []verb{vSet, vGet, vIncr, vGet, vPush, vGet, vMulti, vGet, vEval, vGet}

// listed is how often a worker pushes onto one list.
const listed = 40

func (l *load) mixed(k *worker, n int) op {
	tag := k.tags[n/len(mix)%len(k.tags)]
	name := fmt.Sprintf("{%s}%s:%d:%d:%d", tag, l.name, k.way, k.id, n)
	o := op{verb: mix[n%len(mix)], key: name}
	switch o.verb {
	case vSet:
		o.elems = []string{strconv.Itoa(n)}
	case vGet:
		o.key, o.elems = k.last.key, slices.Clone(k.last.elems)
		if o.key == "" {
			o.key = name // nothing is there
		}
	case vPush, vMulti, vEval:
		turn := n / len(mix)
		o.key = fmt.Sprintf("{%s}%s:%d:%d:l%d", k.tags[turn/listed%len(k.tags)], l.name, k.way, k.id,
			turn/listed)
		o.elems = []string{fmt.Sprintf("%d", n)}
		if o.verb != vPush {
			o.elems = append(o.elems, fmt.Sprintf("%db", n))
		}
	}
	return o
}

const pushTwo = "redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('RPUSH', KEYS[1], ARGV[2])"

// commands are what is sent for an op.
func (o op) commands() [][]string {
	switch o.verb {
	case vGet, vIncr:
		return [][]string{{string(o.verb), o.key}}
	case vSet:
		return [][]string{{"SET", o.key, o.elems[0]}}
	case vMulti:
		return [][]string{{"RPUSH", o.key, o.elems[0]}, {"RPUSH", o.key, o.elems[1]}}
	case vEval:
		return [][]string{{"EVAL", pushTwo, "1", o.key, o.elems[0], o.elems[1]}}
	case vPop:
		return [][]string{{"BLPOP", o.key, "1"}}
	}
	return [][]string{{"RPUSH", o.key, o.elems[0]}}
}

// do does one thing and notes what came of it.
func (l *load) do(k *worker, o op) {
	o.way, o.worker, o.start = k.way, k.id, l.now()
	a, err := k.door.run(o.commands()...)
	o.end = l.now()
	o.told(a, err)
	if o.outcome == acked {
		l.good[k.way][k.id].Store(int64(o.end))
		if o.verb == vSet {
			k.last = o
		}
	} else {
		time.Sleep(10 * time.Millisecond) // as clients do, more or less
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, o)
}

// visit has programs start again and again which read one key and end.
func (l *load) visit(w int) {
	tag := l.tags[l.struck][0]
	var guests sync.WaitGroup
	defer guests.Wait()
	l.paced(l.plan.visits, func(int) {
		guests.Go(func() {
			v := visit{way: w, start: l.now()}
			d, done := l.ways[w].fresh()
			defer done()
			a, err := d.run([]string{"GET", "{" + tag + "}" + l.name + ":none"})
			v.end = l.now()
			if err != nil {
				v.why = kindOf(err.Error())
			} else if a.fail != "" {
				v.why = kindOf(a.fail)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.visits = append(l.visits, v)
		})
	})
}

// direct is how often a master is asked, and patient how long it may take.
const direct, patient = 10 * time.Millisecond, 2 * time.Second

// probe asks a master straight, over one connection, as a measure of what it and the machine can do.
func (l *load) probe(shard int, addr string) {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 1, DialerRetries: 1,
		ReadTimeout: patient, DialTimeout: patient})
	defer client.Close()
	d := library{client}
	key := "{" + l.tags[shard][0] + "}" + l.name + ":none"
	l.paced(direct, func(int) {
		p := probe{shard: shard, start: l.now()}
		_, err := d.run([]string{"GET", key})
		if p.took = l.now() - p.start; err != nil {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.probes = append(l.probes, p)
	})
}

// heard says whether every worker of a way that strikes is true of, has had success since then.
func (l *load) heard(w int, since time.Duration, strikes func(*worker) bool) bool {
	for _, k := range l.workers {
		if k.way == w && k.role != pops && strikes(k) && l.good[w][k.id].Load() <= int64(since) {
			return false
		}
	}
	return true
}
