// Chaos lets everything that can happen to a Redis Cluster and its proxies happen to real ones while clients
// use them, and writes down what the clients felt:
//
//	make chaos                                              every fault, about twelve minutes
//	make chaos CHAOSFLAGS="-only kill,cut"                  some of them
//	make chaos CHAOSFLAGS="-quick"                          all of them, in shorter time
//	make chaos CHAOSFLAGS="-write docs/resilience.md"       and the page of it
//	make chaos CHAOSFLAGS="-only soak -for 1h"              mixed load and faults, and what the proxies use
//
// Each fault has a cluster of its own, with three masters, a replica of each, and two proxies:
//
//	plain clients ---> (haproxy) ---> two lockproxies ---> 3 masters + 3 replicas
//	go-redis, ClusterClient --------------------------------^
//
// Clients of both ways do the same at the same time: SET, GET, INCR, RPUSH, MULTI, EVAL on keys of their own,
// RPUSH and BLPOP on queues, at a fixed pace, each at one shard. Besides, programs that have just started
// read one key, and every master is asked straight, as a measure of the machine.
//
// When a fault is over, all that clients were told is compared with what is there (judge.go): a write that
// was acknowledged and is lost, one that ran twice, one that ran though its client was told that it had not.
// What must not be, ends the program with 1.
//
// The program runs in a network of its own if the system allows it: there iptables can drop packets, and host
// names can change their addresses.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/page"
	"lockproxy/integration/rig"
)

// soakName is what -only calls the soak.
const soakName = "soak"

// options is what the command line says.
type options struct {
	only          []string
	quick         bool
	seed          uint64
	write         string
	lasts         time.Duration // of the soak
	traces        string
	rounds        int // of faults that have targets
	nodeTimeout   time.Duration
	calm          time.Duration // before each fault
	patience      time.Duration // how long clients may take to go on
	plan          plan
	lockproxyArgs []string
	binary        func(rig.Life) string
	command       string
}

func parse(args []string) (options, error) {
	o := options{plan: plan{mixing: 4, pause: 10 * time.Millisecond, visits: 25 * time.Millisecond},
		binary: rig.LeanBinary, command: "make chaos", calm: 3 * time.Second, patience: 12 * time.Second}
	names := strings.Join(append(faultNames(), soakName), ", ")
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	only := f.String("only", "", "some faults, with commas between: "+names)
	f.BoolVar(&o.quick, "quick", false, "shorter waits, and nodes that are given up after 2 s")
	f.Uint64Var(&o.seed, "seed", 0, "seed of what is left to chance; 0: another one each time")
	f.StringVar(&o.write, "write", "",
		"write a page with what was seen, such as docs/resilience.md; what is\nthere of other faults stays")
	f.StringVar(&o.traces, "traces", "",
		"add what `make traces` has counted in this file to the page, and run nothing")
	f.DurationVar(&o.lasts, "for", 10*time.Minute, "how long the soak lasts")
	f.IntVar(&o.rounds, "rounds", 1, "how often a fault that has targets happens: they are for the median")
	f.DurationVar(&o.nodeTimeout, "node-timeout", 5*time.Second, "cluster-node-timeout; with -quick 2s")
	path := f.String("lockproxy", "", "a lockproxy binary; empty: build ./cmd/lockproxy")
	more := f.String("args", "", "further arguments of lockproxy")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	given := map[string]bool{}
	var said []string
	f.Visit(func(f *flag.Flag) {
		given[f.Name] = true
		if !slices.Contains([]string{"write", "traces", "lockproxy"}, f.Name) { // which say nothing of it
			said = append(said, "-"+f.Name+"="+f.Value.String())
		}
	})
	if said != nil {
		o.command += fmt.Sprintf(" CHAOSFLAGS=%q", strings.Join(said, " "))
	}
	if o.quick {
		o.calm, o.patience = 1500*time.Millisecond, 4*time.Second
	}
	if o.quick && !given["node-timeout"] {
		o.nodeTimeout = 2 * time.Second
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	o.lockproxyArgs = strings.Fields(*more)
	if *path != "" {
		o.binary = func(rig.Life) string { return *path }
	}
	o.only = strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	for _, name := range o.only {
		if name != soakName && faultNamed(name) == nil {
			return o, fmt.Errorf("-only %s: must be of %s", name, names)
		}
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("-flags only, not %q", f.Arg(0))
	case o.nodeTimeout < time.Second || o.nodeTimeout > time.Minute:
		return o, fmt.Errorf("-node-timeout %v: must be 1s to 1m", o.nodeTimeout)
	case o.rounds < 1 || o.rounds > 99:
		return o, fmt.Errorf("-rounds %d: must be 1 to 99", o.rounds)
	case o.lasts < time.Minute || o.lasts > 24*time.Hour:
		return o, fmt.Errorf("-for %v: must be 1m to 24h", o.lasts)
	}
	return o, nil
}

// wants says whether a fault, or the soak, is asked for.
func (o options) wants(name string) bool {
	return len(o.only) == 0 && name != soakName || slices.Contains(o.only, name)
}

func main() { rig.Program("chaos", parse, run) }

// run runs what is asked for.
func run(ctx context.Context, o options) error {
	redis.SetLogger(quiet{})
	fmt.Printf("# lockproxy: faults, %s, seed %d\n", time.Now().UTC().Format("2006-01-02 15:04 UTC"), o.seed)
	b := book{Files: page.Files(o.write)}
	if err := b.load(); err != nil {
		return err
	}
	if o.traces != "" {
		err := b.addTraces(o.traces)
		if err == nil {
			fmt.Println(fill("traces", b.kept.Traces))
		}
		return err
	}
	bad := false
	for i := range faults {
		f := &faults[i]
		if !o.wants(f.name) {
			continue
		}
		r := repeat(ctx, f, o)
		if ctx.Err() != nil { // what was cut short says nothing
			return errors.New("interrupted")
		}
		bad = bad || len(r.wrong()) > 0
		if err := b.keepThat(func(rs *results) { rs.put(r) }); err != nil {
			return err
		}
		fmt.Println(r.words())
	}
	if o.wants(soakName) {
		k := soaking(ctx, o)
		bad = bad || len(k.Wrong) > 0 // also of a short one
		if err := b.keepThat(func(rs *results) { rs.Soak = k }); err != nil {
			return err
		}
	}
	fmt.Printf("\n%s\n", b.text(b.fresh))
	if bad {
		return errors.New("something happened that must not")
	}
	return nil
}

// blank is a row of which nothing is known yet.
func blank(f *fault, o options) row {
	return row{Name: f.name, Title: f.title, seen: o.seeCluster(), Lossy: f.lossy}
}

// repeat has a fault happen, and as often as is asked for if it has targets.
func repeat(ctx context.Context, f *fault, o options) (r row) {
	var earlier []row
	for {
		r = perform(ctx, f, o)
		if f.targets == nil || len(earlier)+1 >= o.rounds || ctx.Err() != nil {
			r.Earlier = earlier
			return r
		}
		fmt.Println(r.words())
		earlier = append(earlier, r.undrawn())
		o.seed++
	}
}

// perform has one fault happen.
func perform(ctx context.Context, f *fault, o options) (r row) {
	if f.nodeTimeout > 0 {
		o.nodeTimeout = f.nodeTimeout
	}
	r = blank(f, o)
	if r.Skipped = f.needs.why(); r.Skipped != "" {
		return r
	}
	s := &scene{OwnLife: &rig.OwnLife{}, options: o, fault: f}
	// The same for each fault, whichever others are asked for.
	s.random = rand.New(rand.NewPCG(o.seed, uint64(slices.Index(faultNames(), f.name))))
	err := r.attempt(s.OwnLife, func() {
		err := s.Attempt(func() {
			s.open()
			rig.Pause(ctx, o.calm)
			f.happen(s)
			s.settle()
		})
		if s.load != nil {
			s.load.end()
		}
		if err != nil {
			s.Fatalf("%v", err)
		}
		s.measure(&r)
	})
	r.Notes = s.notes
	if err != nil {
		r.Ways, r.Skipped = nil, "it did not get to its end: "+firstLine(err.Error())
	} else {
		r.Wrong = append(r.Ways[0].violations(f.lossy), r.Wrong...)
	}
	return r
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
