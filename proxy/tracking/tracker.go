// Package tracking is the connections that a client has for itself, and CLIENT TRACKING, which needs them: a
// node remembers what each of its connections has read, so what a tracking client reads must not go over a
// connection that others use. A client that is a user of the upstream's ACL needs such connections too; one
// set serves both.
//
//	client.Host.Mode --> Connections --> nodes ... push --> Tracker.Push --> tellKeys --> client.Host.Push
//	                                                                             |
//	                                                CLIENT TRACKING REDIRECT     +--> hearKeys, of another
//
// Connections.Open makes a set, and Connections.Become makes the client's commands go over it. Hello and Turn
// change its protocol and database when the client changes its own, but only behind the answers to all
// earlier commands: otherwise their replies would come in the wrong protocol.
//
// Tracker owns the set while the client tracks. If the proxy cannot know what has changed, because a
// connection was lost or a slot has moved, the client is told that everything has. An invalidation is written
// behind the answer that it may be about (client.Answers.Touched): if it came first, the client would cache
// the old value after it.
package tracking

import (
	"bytes"
	"slices"
	"strconv"
	"sync/atomic"

	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
)

var (
	toldInvalid = []byte(">2\r\n$10\r\ninvalidate\r\n")
	toldMessage = []byte("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n")
	toldBroken  = []byte(">2\r\n$21\r\ntracking-redir-broken\r\n:")
	noPerm      = []byte("-NOPERM ")
	busy        = []byte("-BUSY ")
)

// CachingYes and CachingNo are CLIENT CACHING, before a command of a client that opted in, or out.
var (
	CachingYes = resp.AppendCommandStrings(nil, "CLIENT", "CACHING", "YES")
	CachingNo  = resp.AppendCommandStrings(nil, "CLIENT", "CACHING", "NO")
)

// Trackers are the clients of all loops that track, or that get what others track.
type Trackers struct {
	On   atomic.Int64            // how many track
	Find func(id int64) *Tracker // returns the Tracker of a client; nil: there is no such client
}

// Tracker owns the client's connections while it tracks, and gets what they push. It implements
// commands.Tracker.
type Tracker struct {
	h       client.Host
	own     *Connections
	all     *Trackers
	allTold bool // the client was told that everything has changed, and has asked for nothing since
}

// NewTracker returns the Tracker of a client that does not track yet. own are its connections; all has the
// clients that it may tell.
func NewTracker(h client.Host, own *Connections, all *Trackers) Tracker {
	return Tracker{h: h, own: own, all: all}
}

// Track implements commands.Tracker. It answers when the nodes track: in broadcasting mode all masters,
// otherwise one, which shows that the upstream can.
func (t *Tracker) Track(next commands.Tracking, prefixes []string) {
	t.h.SetHold(client.HoldOrder)
	about := t.h.About()
	if about.Tracking.On {
		t.retrack(next, prefixes)
		return
	}
	about.Tracking = next
	t.all.On.Add(1)
	set := t.own.Open(t.own.as, t)
	t.own.Become(t.own.as, set)
	finish := func(reply []byte) []byte {
		switch {
		case t.own.set != set: // the client has gone
		case set.Refused() != nil:
			t.Untrack()
			return bytes.Clone(set.Refused())
		case reply[0] == '-' && !bytes.HasPrefix(reply, noPerm): // without +ping it may track
			t.Untrack()
			return bytes.Clone(reply)
		case next.BCast:
			set.Everywhere()
		}
		return resp.OK
	}
	if next.BCast && client.Masters(t.h) > 0 {
		t.h.Actions().AskAll(client.Ping, commands.Reread,
			func(_ int, replies [][]byte) []byte { return finish(firstFailed(replies)) })
		return
	}
	t.h.Actions().Ask(pipe.Target{}, client.Ping, commands.Reread, finish)
}

// firstFailed returns the first error among replies that is not about rights; if all are, the first of them.
func firstFailed(replies [][]byte) []byte {
	for _, reply := range replies {
		if reply[0] == '-' && !bytes.HasPrefix(reply, noPerm) {
			return reply
		}
	}
	return replies[0]
}

// retrack changes the options of a client that tracks already; what it has read stays tracked.
func (t *Tracker) retrack(next commands.Tracking, prefixes []string) {
	tag, set := t.h.CurrentTag(), t.own.set
	t.h.AnswerLater(client.ByNode)
	t.h.About().Tracking = next
	set.Configure(trackingSetup(next, prefixes), func() {
		refused := set.Refused()
		// Beside a script the node is asked again, over a new connection.
		if refused != nil && !bytes.HasPrefix(refused, busy) {
			t.Untrack()
			t.h.Answer(tag, refused)
			return
		}
		t.h.Answer(tag, resp.OK)
	})
}

// Untrack implements commands.Tracker. The connections of a user stay.
func (t *Tracker) Untrack() {
	tracked := t.stopTracking()
	if t.own.set == nil || !tracked && t.own.as != nil {
		return
	}
	t.own.Become(t.own.as, nil)
	if t.own.as != nil {
		t.own.Become(t.own.as, t.own.Open(t.own.as, t))
	}
}

// stopTracking notes that the client no longer tracks, and says whether it did.
func (t *Tracker) stopTracking() (tracked bool) {
	about := t.h.About()
	if tracked = about.Tracking.On; tracked {
		t.all.On.Add(-1)
	}
	about.Tracking = commands.Tracking{}
	return tracked
}

// End makes the client neither track nor be a user any more. If the client has gone, its connections remain
// those of its user: what it asked for may still run, and must not run as the proxy.
func (t *Tracker) End() {
	if t.own.as == nil || !t.h.Gone() {
		t.own.as = nil
		t.Untrack()
		return
	}
	t.stopTracking()
	t.own.set.End()
}

// Next says whether CLIENT CACHING applies to cmd, the next command: it applies to the first one that is not
// CLIENT.
func (t *Tracker) Next(cmd *commands.Command) (caching bool) {
	state := &t.h.About().Tracking
	caching = state.Caching
	if caching && cmd.Flags&commands.BesideCaching == 0 {
		state.Caching = false
	}
	t.Asked()
	return caching
}

// Asked notes that the client asks for something, and may cache the answer.
func (t *Tracker) Asked() { t.allTold = false }

// Unheard makes the client forget what it has read: nobody would tell it of changes.
func (t *Tracker) Unheard() {
	if t.own.set != nil {
		t.Stale()
	}
}

// Push implements owned.SetOwner.
func (t *Tracker) Push(message []byte) {
	if keys, ok := bytes.CutPrefix(message, toldInvalid); ok && t.h.About().Tracking.On {
		t.tellKeys(keys)
	}
}

// Stale implements owned.SetOwner.
func (t *Tracker) Stale() {
	if about := t.h.About(); about.Tracking.On {
		t.tellKeys(resp.AppendNull(nil, about.Proto))
	}
}

// tellKeys tells which keys have changed: an array of them, or Null for all.
func (t *Tracker) tellKeys(keys []byte) {
	about := t.h.About()
	behind, latest := t.h.Answers().Touched()
	if keys[0] != '*' || keys[1] == '-' {
		if t.allTold {
			return
		}
		// Behind its latest command the client has nothing left that another master could still tell it to
		// drop.
		t.allTold = latest && client.Masters(t.h) > 1 && !about.Tracking.BCast
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
func (t *Tracker) tellOther(id int64, keys []byte) {
	here, other := t.h.Loop(), t.all.Find(id)
	if other == nil {
		t.reportBroken(id)
		return
	}
	there := other.h.Loop()
	if there == here {
		other.hearKeys(keys)
		return
	}
	keys = bytes.Clone(keys)
	there.Post(func() {
		if other.h.Gone() {
			here.Post(func() { t.reportBroken(id) })
			return
		}
		other.hearKeys(keys)
	})
}

// reportBroken notes and reports that the client of that id cannot be told.
func (t *Tracker) reportBroken(id int64) {
	about := t.h.About()
	if t.h.Gone() || about.Tracking.Redirect != id {
		return
	}
	about.Tracking.Broken = true
	if about.Proto == 3 {
		behind, _ := t.h.Answers().Touched()
		t.pushBehind(behind, toldBroken, append(strconv.AppendInt(nil, id, 10), "\r\n"...))
	}
}

// hearKeys tells the client what another client's connections were told. In RESP2 that is a message, and only
// if the client has subscribed to anything.
func (t *Tracker) hearKeys(keys []byte) {
	switch {
	case t.h.About().Proto == 3:
		t.pushBehind(t.h.Answers().Answered(), toldInvalid, keys)
	case t.h.About().Subscribed():
		t.pushBehind(t.h.Answers().Answered(), toldMessage, keys)
	}
}

// pushBehind writes text, in two parts, behind the answer of command tag.
func (t *Tracker) pushBehind(tag uint32, head, body []byte) {
	t.h.Push(tag, slices.Concat(head, body))
}

// Party implements owned.Counted.
func (t *Tracker) Party() owned.Party { return client.PartyOf(t.h.About()) }
