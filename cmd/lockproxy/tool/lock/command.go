// Package lock is lockproxy lock: it runs a command while it holds a lock, for as long as that takes.
//
//	acquireLock --> startJob --> the command, in a process group of its own
//	     |             |
//	hold.watchHold  signals and stops are passed to and fro; the terminal is lent
//	     |             |
//	  lost: the group is ended   the command ends --> hold.releaseLock --> its exit code
//
// The proxy keeps the hold alive for as long as the connection lives, and lets it linger when that breaks;
// watchHold makes sure of it, and takes it over on another connection.
package lock

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"lockproxy/cmd/lockproxy/kind"
	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/client"
)

// Exit codes beside those of all subcommands.
const (
	exitLost       = 79 // sysexits.h ends at 78
	exitCannotRun  = 126
	exitNotFound   = 127
	exitSignalBase = 128
)

// Variables that the command gets.
const (
	tokenVariable = "LOCKPROXY_TOKEN"
	fenceVariable = "LOCKPROXY_FENCE"
)

// Variables are those that the command gets. They begin like settings, and are none.
var Variables = []string{tokenVariable, fenceVariable}

// Command is lockproxy lock.
func Command() *cobra.Command {
	o := &options{lease: 30 * time.Second}
	c := tool.Command(&cobra.Command{
		Use:     "lock [--flag value]... NAME -- COMMAND [ARG]...",
		Short:   "Runs a command while it holds a lock",
		Long:    tool.Long(about, append(exits, tool.Reaching...)...),
		Example: examples,
	}, 1, 1, o.runLock)
	f := c.Flags()
	f.Var(kind.Time(&o.wait, 0, year), "wait", "how long to wait for the lock, in a queue; without it, "+
		"not at all")
	f.Var(kind.Time(&o.lease, leastLease, year), "lease",
		"for how long the lock stays if this program, its host or the network dies")
	f.Var(kind.Time(&o.grace, 0, year), "grace", "how long the command has between TERM and KILL when the "+
		"lock is lost; 5s, or a third of the lease if that is less")
	tool.Yes(f, &o.shared, "shared", "a shared lock: others with --shared may hold it too")
	f.Var(kind.Number(&o.permits, 1, 1000), "permits", "one of so many permits: up to N may run at a time")
	f.Var(kind.Time(&o.atLeast, 0, year), "atleast", "the lock stays taken until so long after it was "+
		"taken, however soon the command ends")
	tool.Yes(f, &o.once, "once", "if somebody holds the lock, do nothing and exit 0")
	tool.Yes(f, &o.passEnv, "pass-env", "the command gets the variables with the proxy's password, too")
	f.Var(kind.Text(&o.meta, "TEXT", "any text"), "meta", "what LOCKCTL INFO shows of the holder, for "+
		"people; this host and process without it")
	for _, name := range []string{"wait", "grace", "atleast"} {
		f.Lookup(name).DefValue = "" // its text says what holds without it
	}
	o.proxy = client.Flags(f, client.Addr)
	return c
}

const about = `
Takes the lock NAME, runs the command, and frees the lock when the command ends. The lock is renewed for as
long as that takes, and the exit code is that of the command. If the lock is held by somebody else and
--wait is not given, or over, the command does not run.

If the lock is lost, the command and what it has started are ended: TERM, and KILL after --grace. So it is
when no proxy has confirmed the lock for so long that the lease may end: the command is dead before somebody
else can have the lock. A proxy that comes back before, or another one at the same address, goes on with it.
It is ended likewise if this program is killed.

Signals are passed on to the command. It can use the terminal, and be stopped and continued as any job.

--once is for cron on several hosts: whoever comes when the lock is taken does nothing, and exits 0. Give
--atleast as well, somewhat shorter than the interval, so that a host whose clock is late does not run it
again.

The command gets two variables: LOCKPROXY_TOKEN, the token that owns the lock, a secret, for GUARD, for
example; and LOCKPROXY_FENCE, the fence, a number that rises with each grant of the lock.`

const examples = `  lockproxy lock nightly-report -- ./report.sh
        one at a time, or exit code 75
  lockproxy lock --wait 5m deploy -- make deploy
        stands in the queue for up to 5 minutes
  lockproxy lock --once --atleast 14m import -- ./import.sh
        in the crontab of all hosts, each 15 minutes: one of them runs it
  lockproxy lock --permits 4 --wait 1h encode -- ffmpeg -i in.mkv out.mp4
        at most four at a time, on all hosts together
  lockproxy lock --shared --wait 10s catalog -- ./export.sh
        beside others with --shared, and never beside one without
  lockproxy lock ledger -- sh -c './post.sh --fence "$LOCKPROXY_FENCE"'
        hands the fence to a resource that refuses older ones`

var exits = []tool.Exit{
	{Code: tool.ExitData, Meaning: "the name is in use for something else: another kind of lock, " +
		"or another number of permits"},
	{Code: tool.ExitTemporary, Meaning: "somebody else holds the lock, or it cannot be granted now"},
	{Code: exitLost, Meaning: "the lock was lost; the command was ended, or had ended meanwhile"},
	{Code: exitCannotRun, Meaning: "the command cannot be run"},
	{Code: exitNotFound, Meaning: "there is no such command"},
	{Code: exitSignalBase, Meaning: "and the number of a signal that ended the command, or the " +
		"waiting: 143 for TERM"},
}

// options are what the flags say. name is the operand. checkOptions sets grace and meta where no flag has.
type options struct {
	name    string
	wait    time.Duration
	lease   time.Duration
	grace   time.Duration // 0: a third of the lease, 5 s at most
	atLeast time.Duration
	permits int
	shared  bool
	once    bool
	passEnv bool
	meta    string
	proxy   *client.Options
}

// Bounds of the flags.
const (
	leastLease = 100 * time.Millisecond
	year       = 365 * 24 * time.Hour
	mostGrace  = 5 * time.Second // unless --grace says more
)

// origin says where this process is. It is META of the grant, so LOCKCTL INFO leads people to the process.
func origin() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// checkOptions says what is wrong with the options together, and sets those that depend on others.
func (o *options) checkOptions() error {
	switch {
	case o.once && o.wait > 0:
		return errors.New("--once and --wait exclude each other: whoever waits runs the command again")
	case o.shared && o.permits > 0:
		return errors.New("--shared and --permits exclude each other")
	// TERM is sent a grace before the lease may end, and the hold is made sure of several times within what
	// is left.
	case o.grace > o.lease/3:
		return fmt.Errorf("--grace must be at most a third of --lease, which is %s: the command must be "+
			"dead before the lease ends", kind.Short(o.lease))
	}
	if o.meta == "" {
		o.meta = origin()
	}
	if o.grace == 0 {
		o.grace = min(mostGrace, o.lease/3)
	}
	return o.proxy.Check()
}
