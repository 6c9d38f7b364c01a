package proxy

import (
	"bytes"
	"strconv"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// This file is CLIENT TRACKING: a node remembers what each of its connections has read, so
// the commands of a client that tracks go over connections of its own, session.own. What the nodes say
// there reaches the client, or the one that it names, as Redis would have said it:
//
//	session.mode --> Private --> node ... push --> tracked.Push --> tell --> session.push, or another session.hear
//
// Where the proxy cannot know what has changed (a connection was lost, a slot has moved) it says that all
// has.

var (
	toldInvalid  = []byte(">2\r\n$10\r\ninvalidate\r\n")
	toldMessage  = []byte("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n")
	toldBroken   = []byte(">2\r\n$21\r\ntracking-redir-broken\r\n:")
	cachingYes   = resp.AppendCommandStrings(nil, "CLIENT", "CACHING", "YES")
	cachingNo    = resp.AppendCommandStrings(nil, "CLIENT", "CACHING", "NO")
	trackingPing = resp.AppendCommandStrings(nil, "PING")
	trackingOK   = []byte("+OK\r\n")
)

// tracker implements commands.Tracker.
type tracker struct{ s *session }

// Track implements commands.Tracker. The answer comes when the nodes track: in broadcasting mode
// all masters, else one, which shows that the upstream can.
func (t tracker) Track(next commands.Tracking, prefixes []string) {
	s := t.s
	s.acted = true
	s.setHold(holdOrder)
	if s.Tracking.On {
		s.retrack(next, prefixes)
		return
	}
	s.Tracking = next
	s.w.server.tracking.Add(1)
	own := s.connections(s.as)
	if s.own != nil {
		s.own.End()
	}
	s.own = own
	finish := func(reply []byte) []byte {
		switch {
		case s.own != own: // the client has gone
		case reply[0] == '-':
			s.untrack()
			if refused := own.Refused(); refused != nil {
				reply = refused
			}
			return bytes.Clone(reply)
		case next.BCast:
			own.Everywhere()
		}
		return trackingOK
	}
	if next.BCast && s.w.masters() > 0 {
		actions{s}.AskAll(trackingPing, commands.Asking{Resend: true}, func(_ int, replies [][]byte) []byte { return finish(firstFailed(replies)) })
		return
	}
	actions{s}.Ask(cluster.Target{}, trackingPing, commands.Asking{Resend: true}, finish)
}

// firstFailed is the first error among replies, or else the first of them.
func firstFailed(replies [][]byte) []byte {
	for _, reply := range replies {
		if reply[0] == '-' {
			return reply
		}
	}
	return replies[0]
}

// retrack changes the options of a client that tracks already: what it has read stays tracked.
func (s *session) retrack(next commands.Tracking, prefixes []string) {
	tag, own := s.current, s.own
	s.Tracking = next
	own.Configure(trackingSetup(next, prefixes), func() {
		if refused := own.Refused(); refused != nil {
			s.untrack()
			s.answer(tag, refused)
			return
		}
		s.answer(tag, trackingOK)
	})
}

// trackingSetup has the connections of a client track as t says; prefixes are new in it.
func trackingSetup(t commands.Tracking, prefixes []string) cluster.Setup {
	before := cachingNo
	if t.OptIn {
		before = cachingYes
	}
	return cluster.Setup{
		Requests: func(fresh bool, sink int64) [][]byte {
			if fresh {
				return t.Requests(t.Prefixes, sink)
			}
			return t.Requests(prefixes, sink)
		},
		Sink:   t.Redirect != 0,
		Before: before,
	}
}

// Untrack implements commands.Tracker.
func (t tracker) Untrack() { t.s.untrack() }

func (s *session) untrack() {
	tracked := s.Tracking.On
	if tracked {
		s.w.server.tracking.Add(-1)
	}
	s.Tracking = commands.Tracking{}
	if tracked || s.as == nil {
		s.unowned()
	}
}

// routeTracked is route for a client that tracks: CLIENT CACHING holds for the one command
// behind it that is not CLIENT.
func (s *session) routeTracked(cmd *commands.Command, args [][]byte, raw []byte) {
	caching := s.Tracking.Caching
	if caching && cmd.Flags&commands.BesideCaching == 0 {
		s.Tracking.Caching = false
	}
	s.allTold = false
	if cmd.Flags&commands.SetsProtocol != 0 {
		s.routeHello(cmd, args, raw)
		return
	}
	own := s.own
	own.Precede(caching)
	s.route(cmd, args, raw)
	own.Precede(false)
}

// cache sends CLIENT CACHING in front of MULTI, where the client has said it: it holds for the whole
// transaction. It cannot stand beside ASKING, for each ends the other; and what was read where ASK said is
// not looked after if the slot stays where it was.
func (l *lane) cache() {
	t, s := l.t, l.t.s
	switch {
	case l.asking:
		l.unheard = s.own != nil && !s.Tracking.BCast
	case !t.caching:
	case s.Tracking.OptIn:
		l.pipe.Request(cachingYes, l, tagCaching)
	default:
		l.pipe.Request(cachingNo, l, tagCaching)
	}
}

// unheard has the client forget what it has read: nobody tells when that changes.
func (s *session) unheard() {
	if s.own != nil {
		tracked{s}.Stale()
	}
}

// routeHello has HELLO answered when the client's own connections speak the new protocol: a node drops what
// it would push to one that speaks RESP2 still. An answer without bytes goes before the one of HELLO until
// then.
func (s *session) routeHello(cmd *commands.Command, args [][]byte, raw []byte) {
	tag := s.current
	s.begin(nil)
	s.route(cmd, args, raw)
	if s.own == nil || s.own.Mode() == s.mode() { // nil: it is the default user again
		s.answer(tag, nil)
		return
	}
	s.turning, s.turnTag = true, tag
	s.setHold(holdOrder)
	s.turnOwn()
}

// turnOwn has the client's own connections speak as it does now, once its earlier commands are answered.
func (s *session) turnOwn() {
	switch {
	case s.own == nil || s.gone || s.own.Mode() == s.mode():
	case s.turning && s.answers.head == s.turnTag:
		s.turning = false
		tag := s.turnTag
		s.own.SetMode(s.mode(), func() { s.answer(tag, nil) })
	case s.answers.len() == 0:
		s.own.SetMode(s.mode(), nil)
	default:
		s.setHold(holdOrder)
	}
}

// tracked is a session as the owner of its connections.
type tracked struct{ *session }

// Push implements cluster.PrivateOwner.
func (t tracked) Push(message []byte) {
	if keys, ok := bytes.CutPrefix(message, toldInvalid); ok && t.Tracking.On {
		t.tell(keys)
	}
}

// Stale implements cluster.PrivateOwner.
func (t tracked) Stale() {
	if t.Tracking.On {
		t.tell(resp.AppendNull(nil, t.Proto))
	}
}

// tell tells which keys have changed: an array of them, or Null for all.
func (t tracked) tell(keys []byte) {
	s := t.session
	if keys[0] != '*' || keys[1] == '-' {
		if s.allTold {
			return
		}
		// Behind its latest command the client has nothing left that another master could still tell it to
		// drop.
		s.allTold = s.touched() == s.answers.tail-1 && s.w.masters() > 1 && !s.Tracking.BCast
	}
	switch {
	case s.gone:
	case s.Tracking.Redirect != 0:
		s.tellOther(s.Tracking.Redirect, keys)
	case s.Proto == 3:
		s.pushBehind(s.touched(), toldInvalid, keys)
	}
}

// tellOther tells the client of that id, or this one that it is gone.
func (s *session) tellOther(id int64, keys []byte) {
	found, ok := s.w.server.byID.Load(id)
	if !ok {
		s.redirBroken(id)
		return
	}
	other := found.(*session)
	if other.w == s.w {
		other.hear(keys)
		return
	}
	keys = bytes.Clone(keys)
	other.w.loop.Post(func() {
		if other.gone {
			s.w.loop.Post(func() { s.redirBroken(id) })
			return
		}
		other.hear(keys)
	})
}

// redirBroken notes, and says, that the client of that id cannot be told.
func (s *session) redirBroken(id int64) {
	if s.gone || s.Tracking.Redirect != id {
		return
	}
	s.Tracking.Broken = true
	if s.Proto == 3 {
		s.pushBehind(s.touched(), toldBroken, append(strconv.AppendInt(nil, id, 10), "\r\n"...))
	}
}

// hear tells the client what another one's connections have heard: in RESP2 as a message, if it has
// subscribed to anything.
func (s *session) hear(keys []byte) {
	switch {
	case s.Proto == 3:
		s.pushBehind(s.answers.head-1, toldInvalid, keys)
	case s.listens != nil:
		s.pushBehind(s.answers.head-1, toldMessage, keys)
	}
}

// pushBehind writes text, in two parts, behind the answer of command tag.
func (s *session) pushBehind(tag uint32, head, body []byte) {
	text := append(append(make([]byte, 0, len(head)+len(body)), head...), body...)
	s.push(tag, func(int) []byte { return text })
}

// touched is the latest command of whose answer anything has come: an invalidation that comes now must not
// overtake it, for it may be about what that answer says. If there is none it is a command that is answered.
func (s *session) touched() uint32 {
	for tag := s.answers.tail; tag != s.answers.head; tag-- {
		if a := s.answers.at(tag - 1); a.started || a.done || a.touched {
			return tag - 1
		}
	}
	return s.answers.head - 1
}
