// Package bench is lockproxy bench: what an installation can do, measured by clients of the proxy.
//
//	Command --> run --> phase: lock, contend, get, set; each for its share of the time
//	                      |
//	        worker, worker ... a connection each --> measure: the times of each kind of answer
//	                      |
//	    Ctrl-C or the end --> clean: locks and keys of this run --> show: a table, or JSON
package bench

import (
	"context"
	"errors"
	"fmt"
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

// benchFlags are the flags.
type benchFlags struct {
	locks   int
	clients int
	time    time.Duration
	only    string // a phase; "": all
	json    bool
	at      *client.Options
}

// Command is lockproxy bench.
func Command() *cobra.Command {
	a := &benchFlags{locks: 1000, clients: 50, time: 30 * time.Second}
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
	}, 0, 0, a.run)
	f := c.Flags()
	f.Var(kind.Number(&a.locks, 1, 100_000), "locks", "how many locks clients take in turn, at least one "+
		"each")
	f.Var(kind.Number(&a.clients, 1, 1000), "clients", "clients at a time, a connection each")
	f.Var(kind.Time(&a.time, 100*time.Millisecond, time.Hour), "time", "for how long, all phases together")
	f.Var(kind.OneOf(&a.only, "lock", "contend", "get", "set"), "only",
		"one of the phases, for all of the time: lock, contend, get or set")
	tool.Yes(f, &a.json, "json", "one JSON object, with times in µs")
	a.at = client.Flags(f, client.Addr)
	return c
}

func (a *benchFlags) run(c *tool.Invocation) int {
	if err := a.at.Check(); err != nil {
		return c.Misused(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second Ctrl-C ends the program at once
	r := newRun(a, c)
	defer r.close()
	err := r.measure(ctx)
	interrupted := ctx.Err() != nil
	if interrupted {
		err = nil // what it has cut explains itself
	}
	stop()
	if wrong := r.clean(); err == nil && wrong != nil {
		err = fmt.Errorf("not all could be cleaned up; it ends by itself soon: %w", wrong)
	}
	if wrong := r.show(interrupted); wrong != nil {
		return c.Fail(tool.ExitSoftware, wrong)
	}
	switch {
	case interrupted:
		return exitInterrupted
	case err == nil:
		return tool.ExitOK
	case errors.Is(err, errTaken):
		return c.Fail(tool.ExitSoftware, err)
	}
	return c.Fail(client.Code(err), err)
}
