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
	all     []*Command // by ID, subcommands too
	own     []*Command // the verbs
	count   int        // of the commands that COMMAND tells of
	listed  []string   // their names and those of their subcommands, as COMMAND LIST has them
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
		unknown: &Command{Row: Row{Name: "unknown", Arity: -1, Route: Refused, Flags: InSubscriber}},
	}
	byName := make(map[string]*Command, 2*len(described))
	for _, c := range described {
		byName[c.Name] = c
	}
	for _, verb := range verbs {
		c := cloneVerb(verb)
		c.table = t
		byName[c.Name] = c
		t.own = append(t.own, c)
	}
	// As of now, before rows add commands that the upstream does not have: COMMAND must not tell of these.
	t.count = len(byName)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		t.listed = append(t.listed, name)
		for _, sub := range slices.Sorted(maps.Keys(byName[name].Subs)) {
			t.listed = append(t.listed, name+"|"+sub)
		}
	}
	rules := make(map[string]*Row, len(rows))
	for i := range rows {
		addMissing(byName, &rows[i])
		rules[rows[i].Name] = &rows[i]
	}
	names := slices.Sorted(maps.Keys(byName)) // so that each Table numbers them alike
	for _, name := range names {
		c := byName[name]
		if c.Flags&LockVerb == 0 { // verbs have no rows
			applyRows(c, rules)
		}
		i := indexOf([]byte(name))
		t.index[i] = append(t.index[i], c)
	}
	for _, name := range refused {
		refuseCommand(t.Named([]byte(name)))
	}
	for _, name := range names { // last, when all fields are known
		t.numberCommand(byName[name])
	}
	t.numberCommand(t.unknown)
	return t, nil
}

// addMissing makes the command of a row where the upstream does not have it: older
// servers describe containers without their subcommands, or lack a command that
// the proxy answers itself. The node refuses such a command if it gets one; a client of an older server may
// still ask the proxy for what the proxy knows.
func addMissing(byName map[string]*Command, r *Row) {
	name, sub, isSub := strings.Cut(r.Name, "|")
	c := byName[name]
	if c == nil {
		c = &Command{Row: Row{Name: name, Arity: -1}}
		byName[name] = c
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
	c := t.Named([]byte("client|reply"))
	return c != nil && c.Flags&NoMulti != 0
}

// Verbs are the commands of lockproxy's own.
func (t *Table) Verbs() []*Command { return t.own }

// Count is the answer of COMMAND COUNT, without subcommands.
func (t *Table) Count() int { return t.count }

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
	settleQueuing(c)
}

// Refusal is the reply to a command whose Route is Refused.
func (c *Command) Refusal() []byte { return Refusal(c.Name, c.Why) }

// listed is the reason for refusing a command of the list.
const listed = " (refused-commands)"

// refuseCommand refuses c, because of the list, and all its subcommands. One that its rule refuses anyway
// keeps its own reason. nil: the upstream does not have it.
func refuseCommand(c *Command) {
	if c == nil {
		return
	}
	if c.Route != Refused {
		c.Route, c.Why = Refused, c.Why+listed
	}
	for _, sub := range c.Subs {
		refuseCommand(sub)
	}
}
