// Bench measures lockproxy end to end against the yardsticks of its trade, with
// real servers and in one run, and prints medians and ratios as markdown, and whether they reach their
// targets:
//
//	make bench                         everything, about fifteen minutes
//	go run ./integration/bench -quick  everything, about three minutes: while developing
//	go run ./integration/bench -only forward -rounds 9
//	go run ./integration/bench -only forward -write docs/performance.md
//
//	load --> direct | lockproxy | twemproxy | haproxy --> redis-server...
//
// What is compared:
//
//   - direct and lockproxy serve a Redis Cluster of three masters; directly, a connection has one master, and
//     keys of its own;
//   - twemproxy (nutcracker) spreads the same keys over three plain Redis by
//     crc16 modulo 3, its cheapest even distribution, for it does not speak the
//     protocol of a cluster;
//   - haproxy forwards the bytes to one plain Redis, in TCP mode.
//
// The load (one thread and epoll), twemproxy and haproxy have one thread each; lockproxy has what it chooses
// by itself. In every round each measurement runs all contenders in turn, a different one first each time,
// and a ratio is the median of the ratios of the rounds: what else the machine does meets all alike. All GETs
// find their key. Each section says beside its code what it measures.
//
// With -write FILE the results are kept beside that page, which is made of them: tables, plots, and each
// target with what was reached. A section that is measured alone takes the place of its older results there.
//
// While a section runs, lockproxy gives profiles at the address that is told at the start:
//
//	go tool pprof 'http://127.0.0.1:PORT/debug/pprof/profile?seconds=10'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"lockproxy/integration/page"
	"lockproxy/integration/rig"
)

// section is what can be measured alone with -only.
type section struct {
	name    string
	measure func(*yard, *report)
}

var sections = []section{
	{"forward", forward},
	{"connections", connections},
	{"churn", churn},
	{"paced", paced},
	{"memory", memory},
	{"lock", pairs},
	{"go", golang},
	{"handover", handover},
	{"scripts", scriptCosts},
	{"keepalive", keepalive},
	{"redlock", independent},
	{"pubsub", pubsub},
	{"large", large},
}

func sectionNames() (names []string) {
	for _, s := range sections {
		names = append(names, s.name)
	}
	return names
}

// options is what the command line says.
type options struct {
	rounds, requests, most int
	only, lockproxy, write string
	quick                  bool
}

func parse(args []string) (o options, err error) {
	names := strings.Join(sectionNames(), ", ")
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 5, "rounds; each runs all contenders")
	f.IntVar(&o.requests, "requests", 100000,
		"requests of a measurement at 50 connections without pipelining; the others follow from it")
	f.StringVar(&o.only, "only", "", "one section: "+names)
	f.BoolVar(&o.quick, "quick", false, "two short rounds, about three minutes in all")
	f.StringVar(&o.lockproxy, "lockproxy", "", "a lockproxy binary to measure; empty: build ./cmd/lockproxy")
	f.IntVar(&o.most, "most", 10000, "most connections of the section connections")
	f.StringVar(&o.write, "write", "",
		"write a page with what was measured, such as docs/performance.md; the other\n"+
			"sections of it stay as they are")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		f.Set("rounds", "2")
		f.Set("requests", "40000")
		f.Parse(args) // what is given counts
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("-flags only, not %q", f.Arg(0))
	case o.only != "" && !slices.Contains(sectionNames(), o.only):
		return o, fmt.Errorf("-only %s: must be one of %s", o.only, names)
	}
	for _, n := range []struct {
		name              string
		value, least, top int
	}{{"rounds", o.rounds, 1, 1000}, {"requests", o.requests, 1000, 100e6}, {"most", o.most, 50, 10000}} {
		if n.value < n.least || n.value > n.top {
			return o, fmt.Errorf("-%s %d: must be %d to %d", n.name, n.value, n.least, n.top)
		}
	}
	return o, nil
}

func main() {
	rig.Program("bench", parse, func(ctx context.Context, o options) error {
		var l rig.OwnLife
		err := l.Attempt(func() { run(&l, o, ctx.Done()) })
		for _, wrong := range l.End() {
			err = errors.Join(err, errors.New(wrong))
		}
		return err
	})
}

// run starts the servers, measures section by section and prints. What fails ends l.
func run(l rig.Life, o options, quit <-chan struct{}) {
	y := open(l, o)
	y.quit = quit
	about := append(page.Machine(),
		page.First("redis-server", "--version"), page.First("nutcracker", "--version")+"; "+
			page.First("haproxy", "-v"))
	fmt.Printf("# lockproxy: benchmark of %s\n\n- %s\n", time.Now().Format("2006-01-02 15:04"),
		strings.Join(about, "\n- "))
	var all []report
	for _, s := range sections {
		if o.only != "" && o.only != s.name {
			continue
		}
		rep := report{Section: s.name, Rounds: o.rounds, Machine: about}
		before := page.UsageNow(y.running())
		s.measure(y, &rep)
		rep.When, rep.Busy = time.Now().Truncate(time.Second), before.Until(page.UsageNow(y.running()))
		all = append(all, rep)
		if o.write != "" { // section by section: what is measured is kept, whatever comes
			y.check(keepPage(page.Files(o.write), all))
		}
	}
	fmt.Printf("\n## Targets\n\n%s", targetTable(all))
	for _, r := range all {
		fmt.Printf("\n%s: %s\n", r.Section, r.Busy)
	}
}

// progress tells the person at the terminal how far this is, who may have interrupted it.
func (y *yard) progress(format string, args ...any) {
	select {
	case <-y.quit:
		y.Fatalf("interrupted")
	default:
	}
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
