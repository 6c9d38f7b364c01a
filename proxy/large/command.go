package large

import (
	"unsafe"

	"lockproxy/commands"
	"lockproxy/commands/cut"
	"lockproxy/internal/resp"
	"lockproxy/proxy/scatter"
)

// This file keeps long commands from holding up the loop. A command of a million arguments takes a second to
// take apart, to cut by slot, to copy to the nodes, and to combine its replies.
//
//	Read --> takeApart --(goroutine)--> Read again: dispatchCommand --> scatter.Send --(goroutine)-->
//	     some parts a round --> nodes --> scatter.Gather --(goroutine)--> answer
//
// Later commands of the client wait, as behind any command that has not been started.

// LongCommand is a command of more than client.LongFrom bytes, which a goroutine takes apart. Until Ready is
// set only that goroutine touches it.
type LongCommand struct {
	Size  int
	Ready bool
	Args  [][]byte
	Err   error

	cmd   *commands.Command // the command that the next fields are about, or nil
	place commands.Place
	cut   *cut.Cut
	merge commands.Merge
}

// Read finds the arguments, and the place of the command if that depends on the slots of its keys.
func (l *LongCommand) Read(table *commands.Table, scripts *commands.Scripts, raw []byte, bySlot bool) {
	if l.Args, _, l.Err = resp.Split(raw, nil); l.Err != nil || len(l.Args) == 0 || !bySlot {
		return
	}
	cmd, refusal := table.Resolve(l.Args)
	if refusal != nil {
		return
	}
	l.place = cmd.PlaceOf(l.Args, table, scripts)
	if l.place.Err == commands.ErrCrossSlot && cmd.Route == commands.Split {
		l.cut, l.merge = cmd.CutBySlot(l.Args)
	}
	l.cmd = cmd
}

// Memory is how many bytes the arguments take besides the command; 0 while the goroutine has them.
func (l *LongCommand) Memory() int {
	if l == nil || !l.Ready {
		return 0
	}
	return cap(l.Args) * int(unsafe.Sizeof([]byte{}))
}

// PlaceOf is the place of cmd, if that is the command and the place was found.
func (l *LongCommand) PlaceOf(cmd *commands.Command) *commands.Place {
	if l == nil || l.cmd != cmd {
		return nil
	}
	return &l.place
}

// CutOf are the parts by slot of cmd, whose place was found; nil: it cannot be cut.
func (l *LongCommand) CutOf() (*scatter.Parts, commands.Merge) {
	if l.cut == nil {
		return nil, nil
	}
	return scatter.ToMake(l.cut, l.Size+l.Memory()), l.merge
}
