package commands

import "strings"

// Queuing says what becomes of a command between MULTI and EXEC.
type Queuing uint8

// What may become of it.
const (
	QueueForward    Queuing = iota // it is sent on as it stands, and runs with EXEC
	QueueHere                      // the proxy has it go its usual way when EXEC has succeeded
	QueueSpread                    // as QueueForward if there is one master only; else as QueueHere
	QueueEverywhere                // as QueueForward, and when EXEC has succeeded the other masters run it, too
	QueueAlone                     // as QueueForward if there is one master only; else as QueueNever
	QueueNever                     // it is refused, with Command.QueueRefusal
	QueueNot                       // it is run at once, as MULTI and EXEC are
)

// queuing are the commands whose Queuing does not follow from their Route and their Flags. "name|" stands for
// all subcommands of name.
var queuing = map[string]Queuing{
	"multi": QueueNot, "exec": QueueNot, "discard": QueueNot, "watch": QueueNot,
	"reset": QueueNot, "quit": QueueNot, "post": QueueNot, "host:": QueueNot,

	// What the node answers best.
	"unwatch": QueueForward, "publish": QueueForward, "spublish": QueueForward, "client|caching": QueueForward, "ping": QueueForward, "echo": QueueForward, "select": QueueForward, "swapdb": QueueForward,
	"eval": QueueForward, "eval_ro": QueueForward, "wait": QueueForward, "waitaof": QueueForward, "xread": QueueForward, "xreadgroup": QueueForward,
	"blpop": QueueForward, "brpop": QueueForward, "brpoplpush": QueueForward, "blmove": QueueForward, "blmpop": QueueForward,
	"bzpopmin": QueueForward, "bzpopmax": QueueForward, "bzmpop": QueueForward,

	// What depends on the commands around it, and on all masters.
	"dbsize": QueueEverywhere, "keys": QueueEverywhere, "flushall": QueueEverywhere, "flushdb": QueueEverywhere, "scan": QueueAlone, "randomkey": QueueAlone,
	"function|load": QueueEverywhere, "function|restore": QueueEverywhere, "function|delete": QueueEverywhere, "function|flush": QueueEverywhere,
	"slowlog|reset": QueueEverywhere,
	"slowlog|":      QueueSpread, "latency|": QueueSpread, "function|stats": QueueSpread, "lastsave": QueueSpread, "debug": QueueSpread,
	"memory|doctor": QueueSpread, "memory|malloc-stats": QueueSpread, "memory|stats": QueueSpread,

	// What would make the reply of EXEC unreadable.
	"subscribe": QueueNever, "psubscribe": QueueNever, "ssubscribe": QueueNever, "unsubscribe": QueueNever,
	"punsubscribe": QueueNever, "sunsubscribe": QueueNever, "monitor": QueueNever, "client|reply": QueueNever,
}

// Reasons for refusing a command between MULTI and EXEC.
const (
	notQueued  = " inside a transaction: send it before MULTI or after EXEC"
	allMasters = " inside a transaction in front of several masters: a transaction runs on one of them"
)

var errNoMulti = []byte("-ERR Command not allowed inside a transaction\r\n")

// settleQueuing works out c.Queue, and how c is refused in a transaction, if it ever is.
func (c *Command) settleQueuing() {
	name, _, isSub := strings.Cut(c.Name, "|")
	q, ok := queuing[c.Name]
	if !ok && isSub {
		q, ok = queuing[name+"|"]
	}
	reason := notQueued
	switch {
	case c.Flags&(LockVerb|NoMulti) != 0:
		q = QueueNever
	case c.Route == Refused && !strings.HasPrefix(c.Reason, " yet"): // for want of a connection of one's own, which there is
		q = QueueNever
	case c.Flags&Blocking != 0: // they do not block there
		q = QueueForward
	case c.Route == Refused && (!ok || q != QueueForward):
		q = QueueNever
	case ok:
	case c.Route == AllNodes:
		q = QueueSpread
	case c.Route == Local:
		q = QueueHere
	}
	if q == QueueSpread && c.Route != AllNodes && c.Run == nil { // one node answers for all, as it does to HELP
		q = QueueForward
	}
	if c.Queue = q; q == QueueAlone {
		reason = allMasters
	}
	switch {
	case c.Flags&NoMulti != 0:
		c.inMulti = errNoMulti
	case c.Route == Refused && q == QueueNever:
		c.inMulti = c.refusal
	default:
		c.inMulti = refusal(c.Name, reason)
	}
}

// QueueRefusal is the reply to a command that is refused between MULTI and EXEC.
func (c *Command) QueueRefusal() []byte { return c.inMulti }
