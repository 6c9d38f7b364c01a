package proxy

import (
	"bytes"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
	"lockproxy/proxy/client"
	"lockproxy/proxy/scatter"
)

// This file asks a node where the keys of a command are (COMMAND GETKEYS), if only Redis can find them. Later
// commands of the client wait meanwhile, so that none overtakes it. For long commands a goroutine makes the
// request and reads the answer.

// askKeys asks a node for the keys of a command, which then goes on. raw is kept until then, since the read
// buffer is used again. goOn runs on the loop, for the current command.
func (r *router) askKeys(args [][]byte, raw []byte, goOn func(slot int, raw []byte)) {
	s := r.s
	raw = client.Lasting(raw)
	caching := s.own.Precedes()
	r.FindSlot(args, raw, func(req []byte, then func([]byte) []byte) {
		s.Actions().Ask(pipe.Target{}, req, commands.Asking{Resend: true}, then)
	}, func(slot int, err error) []byte {
		if err != nil {
			return commands.ErrorReply(err)
		}
		s.own.Set().Preceding(caching, func() { goOn(slot, raw) })
		return nil
	})
}

// FindSlot implements transaction.Proxy: it finds the slot of the current command's keys. ask sends a request
// to a node and passes its reply on. found is called on the loop, once at most: with commands.ErrCrossSlot if
// the keys have several slots.
func (r *router) FindSlot(args [][]byte, raw []byte, ask func(req []byte, then func([]byte) []byte),
	found func(slot int, err error) []byte) {
	s := r.s
	s.SetHold(client.HoldOrder)
	s.KeepFor(s.current, 2*len(raw)) // the command and the request
	var req []byte
	client.ApartIfLong(s, len(raw), func() { req = keysRequest(args) }, func() []byte {
		// Nobody would take the answer.
		if s.gone {
			return client.NoAnswer
		}
		ask(req, func(reply []byte) []byte {
			var slot int
			var err error
			return client.ApartIfLong(s, len(reply), func() { slot, err = slotOfKeys(reply) },
				func() []byte { return found(slot, err) })
		})
		return nil
	})
}

// keysRequest asks for the keys of the command args. It copies them, so it may run on any goroutine.
func keysRequest(args [][]byte) []byte {
	return resp.AppendCommand(nil, append([][]byte{[]byte("COMMAND"), []byte("GETKEYS")}, args...)...)
}

// FindKeys implements commands.Actions. The names are copied: then may keep them.
func (a actions) FindKeys(args [][]byte, then func(keys [][]byte) []byte) {
	a.s.SetHold(client.HoldOrder)
	a.Ask(pipe.Target{}, keysRequest(args), commands.Reread, func(reply []byte) []byte {
		v, _, err := resp.Parse(reply)
		var keys [][]byte
		for _, key := range v.Elems {
			keys = append(keys, bytes.Clone(key.Str))
		}
		if err != nil || v.Err() != "" {
			keys = nil
		}
		return then(keys)
	})
}

// slotOfKeys returns the slot of the keys in a reply of COMMAND GETKEYS. A command without keys may go
// anywhere: the node will say what is wrong with it.
func slotOfKeys(reply []byte) (int, error) {
	v, _, err := resp.Parse(reply)
	if err != nil || v.Err() != "" || len(v.Elems) == 0 {
		return commands.AnySlot, nil
	}
	n := slot.Of(v.Elems[0].Str)
	for _, key := range v.Elems[1:] {
		if slot.Of(key.Str) != n {
			return 0, commands.ErrCrossSlot
		}
	}
	return n, nil
}

// SlotOf is cmd.Slot for the command that is being dispatched.
func (r *router) SlotOf(cmd *commands.Command, args [][]byte) (int, error) {
	if p := r.placeOf(cmd); p != nil {
		return p.Slot, p.Err
	}
	return cmd.Slot(args)
}

// placeOf is the place of the command that is being dispatched, if a goroutine has computed it.
func (r *router) placeOf(cmd *commands.Command) *commands.Place { return r.s.in.long.PlaceOf(cmd) }

// cutBySlot cuts the command that is being dispatched into parts by slot; nil: it cannot be cut. For a long
// command a goroutine has done that already.
func (r *router) cutBySlot(cmd *commands.Command, args [][]byte) (*scatter.Parts, commands.Merge) {
	if r.placeOf(cmd) != nil {
		return r.s.in.long.CutOf()
	}
	cut, merge := cmd.CutBySlot(args)
	if cut == nil {
		return nil, nil
	}
	return scatter.Made(cut.All()), merge
}

// splitCommand sends the parts of a command to the nodes of their slots; reads go to replicas if the client
// wants that.
func (r *router) splitCommand(cmd *commands.Command, parts *scatter.Parts, merge commands.Merge) {
	scatter.Send(r.s, parts, scatter.How{
		Resend: cmd.Flags&commands.ReadOnly != 0, Readers: r.readers(cmd), Pure: cmd,
	}, merge)
}
