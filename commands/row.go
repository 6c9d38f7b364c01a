package commands

import "strings"

// Row is one rule of routing. It holds for the command of its name, "container|sub" for a subcommand; a
// container's row also holds for all its subcommands that have none of their own. Commands without a row go
// by their keys.
type Row struct {
	Name    string                              // lower case, as in COMMAND
	Route   Route                               // with Run: Local
	Arity   int                                 // with the name; negative: at least; 0: as the upstream says
	MaxArgs int                                 // Local: of arguments, the name among them; 0: any number
	Flags   Flags                               // besides those that the upstream tells of
	Run     func(c *Call)                       // Local: must not block
	Step    int                                 // Split: arguments a key, 1 (MGET), 2 (MSET) ...
	Merge   Merge                               // AllNodes, Split, and Blocks on several nodes
	Timeout func(args [][]byte) (Timeout, bool) // Blocks: Command.Blocks
	None    string                              // Blocks on several nodes: the reply if none was asked

	Queue  Queuing                            // between MULTI and EXEC; QueueByRoute: by its route and flags
	Queued func(args [][]byte) Queued         // what it does to the proxy in a transaction, besides its run
	Script ScriptKind                         // what it runs
	Secret func(args [][]byte, secret []bool) // marks those of its arguments that are passwords or tokens
	Globs  func(args [][]byte) [][]byte       // the patterns that a node compares
	Topics TopicUse                           // how the rules of users at older servers judge its arguments
	Finds  func(args [][]byte) bool           // whether it reads keys that Redis finds only while it runs

	// Why goes on behind "... is not available through lockproxy". With a route other than Refused: the
	// command is refused unless refused-commands is changed.
	Why string
}

// Most arguments of commands that the proxy answers on its loop. No honest client comes near, and a command
// within them takes some milliseconds.
const (
	MaxOptions = 1_000  // options; nobody needs so many, unless repeated
	MaxNames   = 4_096  // names that are looked up, and answered with a text for each
	MaxIDs     = 16_384 // clients, scripts, and topics that are new
	MaxTopics  = 65_536 // topics that are known, or are only looked up
)

// applyRows gives c and its subcommands their rules. A container passes on all but its arity.
func applyRows(c *Command, rows map[string]*Row) {
	own := rows[c.Name]
	own.applyRow(c)
	for _, sub := range c.Subs {
		r := rows[sub.Name]
		if r == nil && own != nil {
			inherited := *own
			inherited.Arity = 0
			r = &inherited
		}
		r.applyRow(sub)
		if own != nil {
			sub.Flags |= own.Flags & BesideCaching
		}
	}
}

// applyRow gives c the rule. nil: there is none. The name stays, and flags are added to those of the
// upstream; all else of c.Row is that of the rule.
func (r *Row) applyRow(c *Command) {
	switch {
	case r != nil:
		name, arity, flags := c.Name, c.Arity, c.Flags
		if c.Row = *r; r.Arity == 0 {
			c.Arity = arity
		}
		if c.Name, c.Flags = name, c.Flags|flags; r.Run != nil {
			c.Route = Local
		}
	// without a row, from here on
	case c.Flags&Blocking != 0:
		c.Route = Blocks
	case c.Flags&PubSub != 0:
		c.Route, c.Why = Refused, wouldSubscribe
	default:
		applyTips(c)
		if strings.HasSuffix(c.Name, "scan") { // HSCAN and its like
			c.Globs = GlobsBehind("MATCH")
		}
	}
}

// wouldSubscribe is why a command that subscribes, and has no row, is refused.
const wouldSubscribe = ": it may subscribe a connection that clients share"
