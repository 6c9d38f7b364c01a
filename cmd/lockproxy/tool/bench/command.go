// Package bench is lockproxy bench: what an installation can do, measured by clients of the proxy.
//
//	Command --> runBench --> phase: lock, contend, get, set; each for its share of the time
//	                      |
//	        client, client ... a connection each: histograms of each kind of answer
//	                      |
//	    Ctrl-C or the end --> deleteKeys: those of this run --> showReport: a table, or JSON
package bench

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lockproxy/cmd/lockproxy/kind"
	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/client"
)

// exitInterrupted is that of a program which Ctrl-C has ended.
const exitInterrupted = 130

// Command is lockproxy bench.
func Command() *cobra.Command {
	r := &benchRun{locks: 1000, clients: 50, time: 30 * time.Second}
	c := tool.Command(&cobra.Command{
		Use:   "bench [--flag value]...",
		Short: "Measures what this installation can do: locks, waits, hand-over, forwarding",
		Long: tool.Long(`
Four phases of equal length: clients take and free locks of their own; all of them want one lock, and
hand it on; GET; SET of 100 bytes. It is a load like any other: others will feel it.
Names begin with lockproxy-bench:. What is left at the end, or at Ctrl-C, is freed and deleted; whatever
becomes of this program, its locks end after 10 s and its keys soon after the time is over. At most 48
small keys stay: those in which lockproxy keeps the fences of slots.
One program on one machine is a limit of its own: look at its CPU, and start it on several machines.`,
			append(tool.Reaching, tool.Exit{Code: tool.ExitOK, Meaning: "done"},
				tool.Exit{Code: exitInterrupted, Meaning: "interrupted: what was measured until then is " +
					"shown"})...),
		Example: `  lockproxy bench
        50 clients for 30 s, at the proxy on this machine
  lockproxy bench --proxy 10.0.0.9:6380 --clients 200 --time 2m
        more of it, elsewhere
  lockproxy bench --json > before.json
        to be compared after a change`,
	}, 0, 0, r.runBench)
	f := c.Flags()
	f.Var(kind.Number(&r.locks, 1, 100_000), "locks", "how many locks clients take in turn, at least one "+
		"each")
	f.Var(kind.Number(&r.clients, 1, 1000), "clients", "clients at a time, a connection each")
	f.Var(kind.Time(&r.time, 100*time.Millisecond, time.Hour), "time", "for how long, all phases together")
	f.Var(kind.OneOf(&r.only, "lock", "contend", "get", "set"), "only",
		"one of the phases, for all of the time: lock, contend, get or set")
	tool.Yes(f, &r.json, "json", "one JSON object, with times in µs")
	r.at = client.Flags(f, client.Addr)
	return c
}

// runBench is one use of the subcommand. What was measured is shown even if something went wrong later.
func (r *benchRun) runBench(c *tool.Invocation) int {
	if err := r.at.Check(); err != nil {
		return c.Misused(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second Ctrl-C ends the program at once
	r.runReport = runReport{Proxy: r.at.Addr, Clients: r.clients, Locks: max(r.locks, r.clients),
		Seconds: r.time.Seconds(), Measured: []result{}}
	err := r.measurePhases(ctx, c.Stderr)
	r.Interrupted = ctx.Err() != nil
	if wrong := r.showReport(c.Stdout); wrong != nil {
		return c.Fail(tool.ExitSoftware, wrong)
	}
	switch {
	case r.Interrupted: // what it has cut explains itself
		return exitInterrupted
	case err != nil:
		return c.Fail(client.Code(err), err)
	}
	return tool.ExitOK
}
