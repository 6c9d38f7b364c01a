package commands

import (
	"lockproxy/internal/resp"
	"maps"
	"slices"
	"strings"
)

// Table holds every command by name: the upstream's, as its COMMAND reply
// describes them, changed by our rows of routing, and the lock verbs. Immutable;
// safe for concurrent use.
type Table struct {
	byName  map[string]*Command
	all     []*Command // by ID, subcommands too
	own     []*Command // the verbs
	names   []string   // of the commands that COMMAND tells of
	listed  []string   // of these and of their subcommands, as COMMAND LIST has them
	unknown *Command
	index   index
}

// NewTable makes a Table of the upstream's reply to COMMAND in RESP2 (command), the rules of routing, and
// the verbs, which win over commands of the same name. refused are the names of commands that are not
// available, "config|set" for a subcommand. Nothing keeps command. The rows and verbs are copied, so several
// Tables may be made of them.
func NewTable(command []byte, rows []Row, verbs []*Command, refused ...string) (*Table, error) {
	described, err := describe(command)
	if err != nil {
		return nil, err
	}
	t := &Table{
		byName:  make(map[string]*Command, 2*len(described)),
		unknown: &Command{Row: Row{Name: "unknown", Arity: -1, Route: Refused, Flags: InSubscriber}},
	}
	for _, c := range described {
		t.byName[c.Name] = c
	}
	for _, verb := range verbs {
		c := cloneVerb(verb)
		c.table = t
		t.byName[c.Name] = c
		t.own = append(t.own, c)
	}
	// As of now, before rows add commands that the upstream does not have: COMMAND must not tell of these.
	t.names = slices.Sorted(maps.Keys(t.byName))
	for _, name := range t.names {
		t.listed = append(t.listed, name)
		for _, sub := range slices.Sorted(maps.Keys(t.byName[name].Subs)) {
			t.listed = append(t.listed, name+"|"+sub)
		}
	}
	byName := make(map[string]*Row, len(rows))
	for i := range rows {
		t.addMissing(&rows[i])
		byName[rows[i].Name] = &rows[i]
	}
	// Verbs have no rows.
	for _, c := range t.byName {
		if c.Flags&LockVerb == 0 {
			applyRows(c, byName)
		}
	}
	for _, name := range refused {
		t.refuseNamed(name)
	}
	// Last, when all fields are known; by name, so that each Table numbers them alike.
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		t.numberCommand(t.byName[name])
		i := indexOf([]byte(name))
		t.index[i] = append(t.index[i], t.byName[name])
	}
	t.numberCommand(t.unknown)
	return t, nil
}

// addMissing makes the command of a row where the upstream does not have it: older
// servers describe containers without their subcommands, or lack a command that
// the proxy answers itself. The node refuses such a command if it gets one; a client of an older server may
// still ask the proxy for what the proxy knows.
func (t *Table) addMissing(r *Row) {
	name, sub, isSub := strings.Cut(r.Name, "|")
	c := t.byName[name]
	if c == nil {
		c = &Command{Row: Row{Name: name, Arity: -1}}
		t.byName[name] = c
	}
	if isSub && c.Subs[sub] == nil && c.Flags&LockVerb == 0 {
		c.AddSub(&Command{Row: Row{Name: r.Name, Arity: -2, Flags: c.Flags}, Keys: c.Keys})
	}
}

// numberCommand gives c and its subcommands their IDs.
func (t *Table) numberCommand(c *Command) {
	c.ID = len(t.all)
	t.all = append(t.all, c)
	settleCommand(c)
	if c.Flags&NoMulti != 0 && t.namesInMulti() {
		c.inMulti = resp.ErrorLine("ERR Command '%s' not allowed inside a transaction", c.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Subs)) {
		t.numberCommand(c.Subs[name])
	}
}

// namesInMulti says that the servers name the command when they forbid it in MULTI. Such servers, Valkey 9
// and later, forbid CLIENT REPLY there too.
func (t *Table) namesInMulti() bool {
	client := t.byName["client"]
	return client != nil && client.Subs["reply"] != nil && client.Subs["reply"].Flags&NoMulti != 0
}

// Verbs are the commands of lockproxy's own.
func (t *Table) Verbs() []*Command { return t.own }

// Count is the answer of COMMAND COUNT, without subcommands.
func (t *Table) Count() int { return len(t.names) }

// Listed are the names that COMMAND LIST tells.
func (t *Table) Listed() []string { return t.listed }

// Commands are all commands and subcommands, each at the index that its ID is.
func (t *Table) Commands() []*Command { return t.all }

// Unknown stands for all commands that are not in the table. None of them is ever sent to a node.
func (t *Table) Unknown() *Command { return t.unknown }

// Resolve finds the command of args, which holds at least its name, and steps into subcommands. It never
// returns nil: a command that is not in the table is Unknown. refusal, if not nil, is the reply to a command
// that cannot be right. Only Unknown commands and those that the proxy answers itself are checked; the node
// checks all others.
func (t *Table) Resolve(args [][]byte) (c *Command, refusal []byte) {
	c = t.Lookup(args[0])
	switch {
	case c == nil:
		return t.unknown, UnknownCommand(args)
	// as for most: no subcommands, and the node judges the arguments
	case c.plain:
		return c, nil
	}
	if c.Subs != nil && len(args) > 1 {
		if sub := FindSub(c.Subs, args[1]); sub != nil {
			c = sub
		} else if c.container && c.Route != Local {
			return t.unknown, unknownSubcommand(args)
		}
	}
	if !c.Accepts(len(args)) {
		return c, c.WrongArity()
	}
	if c.TooLong(len(args)) {
		return c, tooLong(c)
	}
	if c.Check != nil {
		return c, c.Check(args)
	}
	return c, nil
}

// Accepts says whether a command of n arguments, the name included, can be
// right. Split commands must be checked here although a node gets them: cut apart, each part could be right.
func (c *Command) Accepts(n int) bool {
	switch c.Route {
	case Local, Blocks:
		return c.Fits(n)
	case Split:
		return c.Step < 2 || c.FirstKey > 0 || n > 1 && (n-1)%c.Step == 0
	}
	return true
}

// TooLong says that the proxy, which answers c itself, does not take as many as n arguments, the name
// included.
func (c *Command) TooLong(n int) bool { return c.MaxArgs > 0 && n > c.MaxArgs }

// Fits says whether the upstream's COMMAND allows c to have n arguments, its name included.
func (c *Command) Fits(n int) bool { return n == c.Arity || c.Arity < 0 && n >= -c.Arity }

// AddSub puts a subcommand, named "container|sub", into c.
func (c *Command) AddSub(sub *Command) {
	if c.Subs == nil {
		c.Subs = make(map[string]*Command)
	}
	c.Subs[sub.Name[strings.IndexByte(sub.Name, '|')+1:]] = sub
}

// cloneVerb is a copy that a table may change. It and its subcommands take no more than MaxOptions. What the
// copies share, as Docs and Keys, nobody changes.
func cloneVerb(c *Command) *Command {
	d := *c
	d.MaxArgs = MaxOptions
	if c.Subs != nil {
		d.Subs = make(map[string]*Command, len(c.Subs))
		for name, sub := range c.Subs {
			d.Subs[name] = cloneVerb(sub)
		}
	}
	return &d
}

// settleCommand works out, once all else is known, what makes c quick to use.
func settleCommand(c *Command) {
	settleKeys(c)
	c.plain = c.Subs == nil && c.Route != Local && c.Route != Blocks && (c.Route != Split || c.Step < 2)
	if c.Route == Refused {
		c.refusal = Refusal(c.Name, c.Why)
	}
	settleQueuing(c)
}

// Refusal is the reply to a command whose Route is Refused.
func (c *Command) Refusal() []byte { return c.refusal }

// listed is the reason for refusing a command of the list.
const listed = " (refused-commands)"

// refuseNamed makes the table refuse a command, "container|sub" for a subcommand; a container with all its
// subcommands. A command that the upstream does not have is passed over.
func (t *Table) refuseNamed(name string) {
	name, sub, isSub := strings.Cut(strings.ToLower(name), "|")
	c := t.byName[name]
	switch {
	case c == nil:
	case isSub:
		if c = c.Subs[sub]; c != nil {
			refuseCommand(c)
		}
	default:
		refuseCommand(c)
		for _, sub := range c.Subs {
			refuseCommand(sub)
		}
	}
}

// refuseCommand refuses c, because of the list. One that its rule refuses anyway keeps its own reason.
func refuseCommand(c *Command) {
	if c.Route != Refused {
		c.Route, c.Why = Refused, c.Why+listed
	}
}
