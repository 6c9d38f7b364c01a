package commands

// Queuing says what becomes of a command between MULTI and EXEC.
type Queuing uint8

// What may become of it.
const (
	QueueByRoute Queuing = iota // of rows only: what the route and the flags imply
	QueueForward                // it is sent on as it stands, and runs with EXEC
	QueueHere                   // the proxy has it go its usual way when EXEC has succeeded
	QueueSpread                 // as QueueForward if there is one master only; else as QueueHere
	// as QueueForward, and when EXEC has succeeded the other masters run it, too
	QueueEverywhere
	QueueAlone // as QueueForward if there is one master only; else as QueueNever
	QueueNever // it is refused with Command.QueueRefusal
	QueueNot   // it is run at once, as MULTI and EXEC are
)

// Reasons for refusing a command between MULTI and EXEC.
const (
	notQueued  = " inside a transaction: send it before MULTI or after EXEC"
	allMasters = " inside a transaction in front of several masters: a transaction runs on one of them"
)

var errNoMulti = []byte("-ERR Command not allowed inside a transaction\r\n")

// settleQueuing works out c.Queue, and the refusal of c in a transaction, if there is one. The first case
// that fits decides; rows say only what does not follow from their route and flags.
func settleQueuing(c *Command) {
	q := c.Queue
	switch {
	case c.StandIn != nil:
		q = QueueForward
	case c.Flags&(LockVerb|NoMulti) != 0, c.Route == Refused:
		q = QueueNever
	case c.Flags&Blocking != 0: // it does not block in a transaction
		q = QueueForward
	case q != QueueByRoute:
	case c.Route == AllNodes:
		q = QueueSpread
	case c.Route == Local:
		q = QueueHere
	default:
		q = QueueForward
	}
	// one node answers for all, as it does to HELP
	if q == QueueSpread && c.Route != AllNodes && c.Run == nil {
		q = QueueForward
	}
	c.Queue = q
	switch {
	case c.Flags&NoMulti != 0:
		c.inMulti = errNoMulti
	case c.Route == Refused && q == QueueNever:
		c.inMulti = c.Refusal()
	case q == QueueAlone:
		c.inMulti = Refusal(c.Name, allMasters)
	default:
		c.inMulti = Refusal(c.Name, notQueued)
	}
}

// QueueRefusal is the reply to a command that is refused between MULTI and EXEC.
func (c *Command) QueueRefusal() []byte { return c.inMulti }

// Queued is what a command between MULTI and EXEC changes in the proxy, besides what it does at the node.
type Queued struct {
	DB        int    // the database that the connection works in behind it; -1: as before
	Proto     string // the protocol that HELLO names; "": none
	Source    []byte // the script that it names, which an EVALSHA behind it may run
	SHA       []byte // the script that must be there, 40 hex digits in any case
	Publishes bool   // its reply counts the subscribers of this proxy too
}

// Queued says what args, a command that is being queued, changes in the proxy. The slices alias args.
func (c *Command) Queued(args [][]byte) Queued {
	q := Queued{DB: -1}
	switch {
	case c.Row.Queued != nil:
		return c.Row.Queued(args)
	case len(args) < 2:
	case c.Script == ScriptSource:
		q.Source = args[1]
	case c.Script == ScriptSHA && len(args[1]) == len(sha{}):
		q.SHA = args[1]
	}
	return q
}
