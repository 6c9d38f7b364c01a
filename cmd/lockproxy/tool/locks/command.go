// Package locks is lockproxy locks: which locks there are, who holds one, and breaking one.
//
//	Command --> listLocks: LOCKCTL LIST --> Lock (lock.go) --> a table, lines, or JSON (table.go)
//	            --watch (watch.go): listLocks again and again; what has changed
//	            info, break: LOCKCTL INFO, LOCKCTL BREAK of one name
//
// Names, and what clients say of themselves, are shown through terminal.Safe alone.
package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lockproxy/cmd/lockproxy/kind"
	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/client"
	"lockproxy/cmd/lockproxy/tool/terminal"
)

// most is how many locks LOCKCTL LIST shows at most.
const most = 10_000

// locksFlags are the flags. They are for one use: conn is closed when that ends.
type locksFlags struct {
	watch bool
	every time.Duration
	most  time.Duration // that a list may take
	scan  bool
	json  bool
	yes   bool
	at    *client.Options
	conn  *client.Conn // to the proxy; nil: not yet
}

// Command is lockproxy locks.
func Command() *cobra.Command {
	a := &locksFlags{every: time.Second, most: time.Minute}
	c := tool.Command(&cobra.Command{
		Use:       "locks [--flag value]... [MATCH] | info NAME | break NAME",
		Short:     "Shows which locks are held and by whom; looks at one, or breaks it",
		ValidArgs: []string{"info", "break"},
		Long: tool.Long(`
MATCH is a pattern as KEYS takes one: 'order:*'. At most 10,000 locks are shown. SINCE is how long
the first holder has had the lock, TTL how long it has it still; WAITERS wait in its queue.
Control characters in names are shown as \x1b. To list a lock that is called info, write '[i]nfo'.`,
			append(tool.Reaching,
				tool.Exit{Code: tool.ExitOK, Meaning: "done; info: somebody holds the lock, or waits for " +
					"it, or it rests"},
				tool.Exit{Code: tool.ExitNo, Meaning: "info, break: the lock is free; break: the answer " +
					"was no"})...),
		Example: `  lockproxy locks
        a table of all locks that are held
  lockproxy locks 'order:*' --watch
        those, live, until Ctrl-C
  lockproxy locks --json | jq -r '.[] | select(.waiters > 10) | .name'
        names of the locks for which many wait
  lockproxy locks info order:42
        who holds that lock, and who waits for it
  lockproxy locks break order:42 --yes
        takes it away from its holders, without asking`,
	}, 0, 2, a.runLocks)
	f := c.Flags()
	tool.Yes(f, &a.watch, "watch", "show again what has changed, until Ctrl-C")
	f.Var(kind.Time(&a.every, 100*time.Millisecond, time.Hour), "every", "with --watch: how often to look")
	f.Var(kind.Time(&a.most, time.Millisecond, time.Hour), "timeout", "how long the proxy may take to "+
		"list locks")
	tool.Yes(f, &a.scan, "scan", "look through all keys of the upstream, also for locks that the index lacks")
	tool.Yes(f, &a.json, "json", "JSON: an array of locks; info: one; --watch: a line for each change")
	tool.Yes(f, &a.yes, "yes", "break: do not ask")
	a.at = client.Flags(f, client.Addr)
	return c
}

// runLocks is one use of the subcommand: info and break take a name, everything else is a pattern.
func (a *locksFlags) runLocks(c *tool.Invocation) int {
	if err := a.at.Check(); err != nil {
		return c.Misused(err)
	}
	defer func() { a.conn.Close() }()
	word := ""
	if len(c.Operands) > 0 {
		word = c.Operands[0]
	}
	// A pattern of one word that is called info or break is written as '[i]nfo'.
	switch one := word == "info" || word == "break"; {
	case one && len(c.Operands) == 1:
		return c.Misused(errors.New(word + " needs the name of a lock"))
	case !one && len(c.Operands) == 2:
		return c.Misused(fmt.Errorf("%s: what to do with a lock is info or break", word))
	case one && a.watch:
		return c.Misused(errors.New("--watch is for the list"))
	case word == "info":
		return a.showInfo(c, c.Operands[1])
	case word == "break":
		return a.breakLock(c, c.Operands[1])
	case word == "":
		word = "*"
	}
	if a.watch {
		return a.followLocks(c, word)
	}
	all, err := a.listLocks(context.Background(), word)
	if err != nil {
		return a.failWith(c, err)
	}
	return a.printLocks(c, all)
}

// askProxy sends a command to the proxy, over a new connection if there is none, and returns the answer,
// which comes within the given time.
func (a *locksFlags) askProxy(ctx context.Context, within time.Duration, args ...any) (v any, err error) {
	// A watch goes on over a new connection when the old one broke.
	if a.conn.Broken() {
		if a.conn, err = a.at.Connect(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	v, err = a.conn.Do(ctx, args...)
	if _, answered := client.Reply(err); answered {
		return nil, a.at.Explain(err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.at.Addr, err)
	}
	return v, nil
}

// failWith says what went wrong between here and the proxy. An error may have text of whoever is at that
// address, so it is made safe.
func (a *locksFlags) failWith(c *tool.Invocation, err error) int {
	return c.Fail(client.Code(err), errors.New(terminal.Safe(err.Error())))
}

// listLocks asks for all locks whose names match.
func (a *locksFlags) listLocks(ctx context.Context, match string) ([]Lock, error) {
	args := []any{"LOCKCTL", "LIST", "MATCH", match, "COUNT", most}
	if a.scan {
		args = append(args, "SCAN")
	}
	reply, err := a.askProxy(ctx, a.most, args...)
	if errors.Is(err, context.DeadlineExceeded) && a.conn != nil { // it has answered when this one connected
		return nil, fmt.Errorf("the proxy answers, but has not listed the locks within %s: give a pattern "+
			"that fits fewer, or a longer --timeout", kind.Short(a.most))
	}
	if err != nil {
		return nil, err
	}
	elems, _ := reply.([]any)
	all := make([]Lock, len(elems))
	for i, one := range elems {
		all[i] = readLock(one)
	}
	return all, nil
}
