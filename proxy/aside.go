package proxy

import (
	"bytes"
	"math"
	"strconv"

	"github.com/tidwall/redcon"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// This file puts the reply of EXEC together when commands were queued that the proxy runs by itself, or that
// all masters run: they run now, one after the other, and their replies are put where they belong.

// assemble makes EXEC's answer of the node's reply, which has one element for each command
// that was sent to it.
func (t *transaction) assemble(reply []byte) []byte {
	n, body, ok := arrayOf(reply)
	if !ok {
		return reply
	}
	a := &aside{s: t.s, tag: t.step.tag, done: t.lane.pipe.Addr(), slot: t.slot}
	counted, left := false, publishSteps
	var uncounted []*queued // as too much was to be counted
	if len(t.guard) > 0 {   // the first is nobody's
		_, rest, err := resp.Parse(body)
		if n--; n < 0 || err != nil {
			return badExec
		}
		body = rest
	}
	for i := range t.log {
		e := &t.log[i]
		switch {
		case e.rejected: // it is a probe, or there was no array
		case e.here != nil:
			a.todo = append(a.todo, e)
			a.parts = append(a.parts, nil)
		default:
			_, rest, err := resp.Parse(body)
			if n--; n < 0 || err != nil {
				return badExec
			}
			part := body[:len(body)-len(rest)]
			if body = rest; e.db >= 0 && part[0] == '+' {
				t.s.DB = e.db
			}
			if e.publishes {
				if part, left = t.s.recount(e.raw, part, a.done, left); left < 0 {
					e.at, uncounted = len(a.parts), append(uncounted, e)
				}
				counted = true
			}
			if e.everywhere != nil && part[0] != '-' {
				e.reply = bytes.Clone(part)
				a.todo, part = append(a.todo, e), nil
			}
			a.parts = append(a.parts, part)
		}
	}
	if n != 0 {
		return badExec
	}
	if len(a.todo) == 0 && len(t.guard) == 0 && !counted {
		return reply
	}
	for i, part := range a.parts { // reply is not there for long
		a.parts[i] = append([]byte(nil), part...)
	}
	t.s.acted = true
	if len(uncounted) > 0 {
		a.count(uncounted)
	} else {
		a.run()
	}
	return nil
}

// count is run behind a goroutine that recounts what was published.
func (a *aside) count(published []*queued) {
	a.s.current = a.tag
	a.s.apart(func() {
		for _, e := range published {
			a.parts[e.at], _ = a.s.recount(e.raw, a.parts[e.at], a.done, math.MaxInt)
		}
	}, func() []byte {
		a.run()
		return nil
	})
}

var badExec = []byte("-ERR the upstream answered EXEC in a form that lockproxy does not expect\r\n")

// arrayOf is how many elements reply, an array, has, and what they are.
func arrayOf(reply []byte) (n int, elems []byte, ok bool) {
	for i := 1; i < len(reply) && reply[0] == '*'; i++ {
		if reply[i] == '\n' {
			n, err := strconv.Atoi(string(reply[1 : i-1]))
			return n, reply[i+1:], err == nil && n >= 0
		}
	}
	return 0, nil, false
}

// aside runs commands for EXEC and takes the answers that they give, in place of the session.
type aside struct {
	s     *session
	tag   uint32 // of EXEC
	todo  []*queued
	parts [][]byte // of EXEC's answer; empty: that of one of todo
	at    int      // in parts
	done  string   // the node that has run the others
	slot  int      // of their keys, or AnySlot

	running  bool // a command runs
	answered bool // it has given its answer
}

// run runs what is left to do, until a command answers later.
func (a *aside) run() {
	s := a.s
	for len(a.todo) > 0 {
		for len(a.parts[a.at]) > 0 {
			a.at++
		}
		s.aside, s.current, s.acted = a, a.tag, false
		a.running, a.answered = true, false
		a.call(a.todo[0])
		if !s.acted {
			a.take(a.tag, noAnswer)
		}
		if a.running = false; !a.answered {
			return
		}
		a.todo = a.todo[1:]
	}
	s.aside, s.acted = nil, true // EXEC is answered here, whoever answered for its last command
	out := redcon.AppendArray(nil, len(a.parts))
	for _, part := range a.parts {
		out = append(out, part...)
	}
	s.answer(a.tag, out)
}

// call has a command act.
func (a *aside) call(e *queued) {
	args, _, err := resp.Split(e.raw, nil)
	if err != nil || a.s.gone && e.everywhere == nil { // it would set up what nobody ends
		return
	}
	if !a.s.Authenticated { // its user is none any more
		a.take(a.tag, noAuth)
		return
	}
	s, cmd, may := a.s, e.here, commands.Actions(asideActions{actions{a.s}, e})
	if e.everywhere != nil {
		cmd, may = e.everywhere, &elsewhere{asideActions{actions{s}, e}, a}
	}
	if cmd.Route == commands.AllNodes {
		may.AskAll(e.raw, commands.Asking{Resend: cmd.Flags&commands.ReadOnly != 0}, cmd.Merge)
		return
	}
	if logsIn(cmd, args) && s.attempts.tooSoon() { // EXEC cannot wait between two of them
		a.take(a.tag, errLoginTooSoon)
		return
	}
	run := func(cmd *commands.Command, args [][]byte, raw []byte) {
		cmd.Run(&commands.Call{
			Command: cmd, Args: args, Raw: raw,
			Client: &s.Client, Table: s.w.table, Server: s.w.server, Actions: may,
		})
	}
	if s.own.as != nil && e.here != nil && !cmd.Free() {
		s.judge(cmd, args, e.raw, run)
		return
	}
	run(cmd, args, e.raw)
}

// take takes the answer to command tag, if that is EXEC.
func (a *aside) take(tag uint32, reply []byte) bool {
	if tag != a.tag || a.answered {
		return false
	}
	a.parts[a.at] = append([]byte(nil), reply...)
	if len(reply) == 0 {
		a.parts[a.at] = noAnswer
	}
	if a.answered = true; !a.running {
		a.todo = a.todo[1:]
		a.run()
	}
	return true
}

// asideActions is what such a command may ask of the session. What it forwards comes back to take too.
type asideActions struct {
	actions
	e *queued
}

// Forward implements commands.Actions.
func (a asideActions) Forward(slot int) {
	o := commands.Asking{Resend: a.e.here.Flags&commands.ReadOnly != 0}
	a.Ask(cluster.ToSlot(slot), a.e.raw, o, func(reply []byte) []byte { return reply })
}
