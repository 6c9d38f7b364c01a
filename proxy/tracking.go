package proxy

import (
	"bytes"
	"strconv"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
)

// This file is CLIENT TRACKING: a node remembers what each of its connections has read, so
// the commands of a client that tracks go over connections of its own, private.set. What the nodes say
// there reaches the client, or the one that it names, as Redis would have said it:
//
//	session.mode --> Private --> node ... push --> tracking.Push --> tell --> host.push, or hear of another client
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
	noPerm       = []byte("-NOPERM ")
)

// tracking is what the client's connections tell it, and the owner of them. It implements commands.Tracker.
type tracking struct {
	h       host
	own     *private
	allTold bool // that all has changed, and nothing was asked for since
}

// Track implements commands.Tracker. The answer comes when the nodes track: in broadcasting mode
// all masters, else one, which shows that the upstream can.
func (t *tracking) Track(next commands.Tracking, prefixes []string) {
	t.h.SetHold(client.HoldOrder)
	about := t.h.About()
	if about.Tracking.On {
		t.retrack(next, prefixes)
		return
	}
	about.Tracking = next
	t.h.worker().server.tracking.Add(1)
	set := t.own.open(t.own.as, t)
	t.own.use(set)
	finish := func(reply []byte) []byte {
		switch {
		case t.own.set != set: // the client has gone
		case set.Refused() != nil:
			t.Untrack()
			return bytes.Clone(set.Refused())
		case reply[0] == '-' && !bytes.HasPrefix(reply, noPerm): // a user without +ping may track all the same
			t.Untrack()
			return bytes.Clone(reply)
		case next.BCast:
			set.Everywhere()
		}
		return trackingOK
	}
	again := commands.Asking{Resend: true}
	if next.BCast && t.h.worker().masters() > 0 {
		t.h.Actions().AskAll(trackingPing, again, func(_ int, replies [][]byte) []byte { return finish(firstFailed(replies)) })
		return
	}
	t.h.Actions().Ask(cluster.Target{}, trackingPing, again, finish)
}

// firstFailed is the first error among replies that is not about rights, or else the first of them.
func firstFailed(replies [][]byte) []byte {
	for _, reply := range replies {
		if reply[0] == '-' && !bytes.HasPrefix(reply, noPerm) {
			return reply
		}
	}
	return replies[0]
}

// retrack changes the options of a client that tracks already: what it has read stays tracked.
func (t *tracking) retrack(next commands.Tracking, prefixes []string) {
	tag, set := t.h.CurrentTag(), t.own.set
	t.h.AnswerLater(client.ByNode)
	t.h.About().Tracking = next
	set.Configure(trackingSetup(next, prefixes), func() {
		if refused := set.Refused(); refused != nil {
			t.Untrack()
			t.h.Answer(tag, refused)
			return
		}
		t.h.Answer(tag, trackingOK)
	})
}

// Untrack implements commands.Tracker. The connections of a user go on.
func (t *tracking) Untrack() {
	tracked := t.stop()
	if t.own.set == nil || !tracked && t.own.as != nil {
		return
	}
	t.own.use(nil)
	if t.own.as != nil {
		t.own.use(t.own.open(t.own.as, t))
	}
}

// stop notes that the client does not track any more, and says whether it did.
func (t *tracking) stop() (tracked bool) {
	about := t.h.About()
	if tracked = about.Tracking.On; tracked {
		t.h.worker().server.tracking.Add(-1)
	}
	about.Tracking = commands.Tracking{}
	return tracked
}

// end ends that the client tracks, and that it is a user. If it has gone, its connections stay those of its
// user: what it asked for may go on, and not as the proxy.
func (t *tracking) end() {
	if t.own.as == nil || !t.h.Gone() {
		t.own.as = nil
		t.Untrack()
		return
	}
	t.stop()
	t.own.set.End()
}

// next says whether CLIENT CACHING holds for cmd, the command that comes next: it does for the one behind it
// that is not CLIENT.
func (t *tracking) next(cmd *commands.Command) (caching bool) {
	state := &t.h.About().Tracking
	caching = state.Caching
	if caching && cmd.Flags&commands.BesideCaching == 0 {
		state.Caching = false
	}
	t.allTold = false
	return caching
}

// unheard has the client forget what it has read: nobody tells when that changes.
func (t *tracking) unheard() {
	if t.own.set != nil {
		t.Stale()
	}
}

// Push implements cluster.PrivateOwner.
func (t *tracking) Push(message []byte) {
	if keys, ok := bytes.CutPrefix(message, toldInvalid); ok && t.h.About().Tracking.On {
		t.tell(keys)
	}
}

// Stale implements cluster.PrivateOwner.
func (t *tracking) Stale() {
	if about := t.h.About(); about.Tracking.On {
		t.tell(resp.AppendNull(nil, about.Proto))
	}
}

// tell tells which keys have changed: an array of them, or Null for all.
func (t *tracking) tell(keys []byte) {
	about := t.h.About()
	behind, latest := t.h.TouchedTag()
	if keys[0] != '*' || keys[1] == '-' {
		if t.allTold {
			return
		}
		// Behind its latest command the client has nothing left that another master could still tell it to
		// drop.
		t.allTold = latest && t.h.worker().masters() > 1 && !about.Tracking.BCast
	}
	switch {
	case t.h.Gone():
	case about.Tracking.Redirect != 0:
		t.tellOther(about.Tracking.Redirect, keys)
	case about.Proto == 3:
		t.pushBehind(behind, toldInvalid, keys)
	}
}

// tellOther tells the client of that id, or this one that it is gone.
func (t *tracking) tellOther(id int64, keys []byte) {
	here := t.h.worker()
	found, ok := here.server.byID.Load(id)
	if !ok {
		t.broken(id)
		return
	}
	other := &found.(*session).tracking
	if other.h.worker() == here {
		other.hear(keys)
		return
	}
	keys = bytes.Clone(keys)
	other.h.worker().loop.Post(func() {
		if other.h.Gone() {
			here.loop.Post(func() { t.broken(id) })
			return
		}
		other.hear(keys)
	})
}

// broken notes, and says, that the client of that id cannot be told.
func (t *tracking) broken(id int64) {
	about := t.h.About()
	if t.h.Gone() || about.Tracking.Redirect != id {
		return
	}
	about.Tracking.Broken = true
	if about.Proto == 3 {
		behind, _ := t.h.TouchedTag()
		t.pushBehind(behind, toldBroken, append(strconv.AppendInt(nil, id, 10), "\r\n"...))
	}
}

// hear tells the client what another one's connections have heard: in RESP2 as a message, if it has
// subscribed to anything.
func (t *tracking) hear(keys []byte) {
	switch {
	case t.h.About().Proto == 3:
		t.pushBehind(t.h.AnsweredTag(), toldInvalid, keys)
	case t.h.About().Subscribed():
		t.pushBehind(t.h.AnsweredTag(), toldMessage, keys)
	}
}

// pushBehind writes text, in two parts, behind the answer of command tag.
func (t *tracking) pushBehind(tag uint32, head, body []byte) {
	text := append(append(make([]byte, 0, len(head)+len(body)), head...), body...)
	t.h.Push(tag, func(int) []byte { return text })
}
