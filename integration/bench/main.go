// Bench measures lockproxy end to end against the yardsticks of its trade, with
// real servers and in one run, and prints medians and ratios as markdown, and whether they reach their
// targets:
//
//	make bench                         everything, about thirteen minutes
//	go run ./integration/bench -quick  everything, about three minutes: while developing
//	go run ./integration/bench -only forward -rounds 9
//	go run ./integration/bench -only forward -write docs/performance.md
//
//	redis-benchmark --> direct | lockproxy | twemproxy | haproxy --> redis-server...
//
// What is compared:
//
//   - direct and lockproxy serve a Redis Cluster of three masters; directly,
//     redis-benchmark --cluster binds each connection to one master;
//   - twemproxy (nutcracker) spreads the same keys over three plain Redis by
//     crc16 modulo 3, its cheapest even distribution, for it does not speak the
//     protocol of a cluster;
//   - haproxy forwards the bytes to one plain Redis, in TCP mode;
//   - predixy, where it is installed, is a proxy before the same cluster as lockproxy.
//
// redis-benchmark, twemproxy and haproxy have one thread each; lockproxy has
// what it chooses by itself. In every round each measurement runs all contenders
// in turn, a different one first each time, and a ratio is the median of the
// ratios of the rounds: what else the machine does meets all alike. All GETs
// find their key.
//
// The section connections has up to 10,000 clients send GETs one at a time, with a load of this
// program's own: one thread and epoll. What it spends on a request is a column of its table. churn has
// connections that are made for one GET, paced an open loop, memory idle clients and values of 16 MiB;
// go has a Go program take locks, beside redsync and rueidislock.
//
// The section scripts has Redis account for what LOCK and UNLOCK cost it, beside SET NX, and
// scripts like those of Redisson, on one server that does nothing else; keepalive has one
// proxy over a cluster of its own keep -holds locks alive, and watches it for some
// thirds of their lease; redlock has one proxy grant locks over 3 and over 5 independent
// masters, beside redsync over the same ones; pubsub has one publisher tell 50 listeners, through
// the proxy and at the server; large has one client delete a million keys with one command.
//
// With -write FILE the results are kept beside that page, which is made of them: tables, plots, and each
// target with what was reached. A section that is measured alone takes the place of its older results there.
//
// CPU a request is that of the proxy's process, all threads, as the operating
// system accounts for it, divided by the requests.
//
// # Profiling lockproxy
//
// With -cpuprofile FILE the benchmark loads lockproxy for some more seconds with
// GETs (-only lock: with pairs of LOCK and UNLOCK; -only redlock: with those over three
// independent masters, by 20 clients one at a time) over 50 connections, -pipeline
// commands at a time, and saves its CPU profile for `go tool pprof FILE`. A
// lockproxy of your own does the same with
//
//	lockproxy --upstream ... --admin 127.0.0.1:6390 --admin-pprof yes
//	go tool pprof 'http://127.0.0.1:6390/debug/pprof/profile?seconds=10'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// section is what can be measured alone with -only.
type section struct {
	name    string
	measure func(context.Context, *yard, options, *report) error
}

var sections = []section{
	{"forward", forward},
	{"connections", connections},
	{"churn", churn},
	{"paced", paced},
	{"memory", memories},
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
	rounds     int
	requests   int
	holds      int
	only       string
	quick      bool
	lockproxy  string
	cpuprofile string
	pipeline   int
	most       int
	write      string
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 5, "rounds; each runs all contenders")
	f.IntVar(&o.requests, "requests", 100000,
		"requests of a measurement at 50 connections without pipelining; the others follow from it")
	f.IntVar(&o.holds, "holds", 100000, "holds that are kept alive; a multiple of 50")
	f.StringVar(&o.only, "only", "", "one section: "+strings.Join(sectionNames(), ", "))
	f.BoolVar(&o.quick, "quick", false, "two short rounds, about three minutes in all")
	f.StringVar(&o.lockproxy, "lockproxy", "",
		"a lockproxy binary to measure; empty: build ./cmd/lockproxy; none: the yardsticks alone")
	f.StringVar(&o.cpuprofile, "cpuprofile", "", "save a CPU profile of lockproxy to this file at the end")
	f.IntVar(&o.pipeline, "pipeline", 16, "commands at a time while -cpuprofile is taken")
	f.IntVar(&o.most, "most", 10000, "most connections of the section connections")
	f.StringVar(&o.write, "write", "",
		"write a page with what was measured, such as docs/performance.md; the other\n"+
			"sections of it stay as they are")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		given := map[string]bool{}
		f.Visit(func(f *flag.Flag) { given[f.Name] = true })
		if !given["rounds"] {
			o.rounds = 2
		}
		if !given["requests"] {
			o.requests = 40000
		}
		if !given["holds"] {
			o.holds = 10000
		}
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("-flags only, not %q", f.Arg(0))
	case o.only != "" && !slices.Contains(sectionNames(), o.only):
		return o, fmt.Errorf("-only %s: must be one of %s", o.only, strings.Join(sectionNames(), ", "))
	case o.rounds < 1 || o.rounds > 1000:
		return o, fmt.Errorf("-rounds %d: must be 1 to 1000", o.rounds)
	case o.requests < 1000 || o.requests > 100e6:
		return o, fmt.Errorf("-requests %d: must be 1000 to 100000000", o.requests)
	case o.holds < keepBatch || o.holds > 1e6 || o.holds%keepBatch != 0:
		return o, fmt.Errorf("-holds %d: must be %d to 1000000, a multiple of %[2]d", o.holds, keepBatch)
	case o.most < 50 || o.most > 10000:
		return o, fmt.Errorf("-most %d: must be 50 to 10000", o.most)
	case o.pipeline < 1 || 2*lockNames%o.pipeline != 0:
		return o, fmt.Errorf("-pipeline %d: must divide %d", o.pipeline, 2*lockNames)
	}
	return o, nil
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, o); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run starts the servers, measures section by section and prints.
func run(ctx context.Context, o options) error {
	if err := installed(); err != nil {
		return err
	}
	y := &yard{}
	defer y.close()
	if err := y.open(ctx, o); err != nil {
		return err
	}
	about := machine()
	fmt.Printf("# lockproxy: benchmark of %s\n\n- %s\n", time.Now().Format("2006-01-02 15:04"),
		strings.Join(about, "\n- "))
	var all []report
	for _, s := range sections {
		if o.only != "" && o.only != s.name {
			continue
		}
		rep := report{Section: s.name, Rounds: o.rounds, Machine: about}
		before := y.usage()
		if err := s.measure(ctx, y, o, &rep); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		rep.When, rep.Busy = time.Now().Truncate(time.Second), before.Until(y.usage())
		all = append(all, rep)
		if o.write != "" { // section by section: what is measured is kept, whatever comes
			if err := (written{o.write}).update(all); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\n## Targets\n\n%s", targetTable(all))
	for _, r := range all {
		fmt.Printf("\n%s: %s\n", r.Section, r.Busy)
	}
	if o.cpuprofile != "" {
		return y.profile(ctx, o)
	}
	return nil
}

// installed says which programs are missing, and how to get them. Without a yardstick the others are
// measured.
func installed() error {
	missing := absent("redis-server", "redis-benchmark")
	if yardsticks := absent("nutcracker", "haproxy", "predixy"); yardsticks != nil {
		progress("not installed and not measured: %s; `make bench` installs what the system has as packages",
			strings.Join(yardsticks, ", "))
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("not installed: %s; run `make bench`, which installs them",
		strings.Join(missing, ", "))
}

// absent are those of the programs that are not on PATH.
func absent(programs ...string) (missing []string) {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	return missing
}
