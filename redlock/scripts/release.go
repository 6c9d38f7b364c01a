package scripts

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"lockproxy/internal/resp"
	"lockproxy/redlock"

	"github.com/tidwall/redcon"
)

// Release frees a hold; Cancel takes back what one LOCK has done, or ends all holds of a lock.
var (
	Release = loadScript("release", 2)
	Cancel  = loadScript("cancel", 2)
)

// DeleteCall deletes a plain lock without a script, on servers that have a command for it: DELIFEQ of
// Valkey, or DELEX of Redis. It was granted to the request id, with that fence. It compares the whole value,
// so it deletes nothing but that very grant, unchanged. buf is as that of eval.
func DeleteCall(
	buf []byte, n *redlock.Names, command, name, token string, id [redlock.IDBytes]byte, fence int64,
) Call {
	if buf == nil {
		buf = make([]byte, 0, 192+len(name))
	}
	words := 3
	if command == "DELEX" {
		words = 4
	}
	req, at := appendLock(redcon.AppendBulkString(redcon.AppendArray(buf, words), command), n, name)
	if command == "DELEX" {
		req = redcon.AppendBulkString(req, "IFEQ")
	}
	return Call{Slot: at, Req: appendPlain(req, fence, id[:], token)}
}

// endingBytes is the length of the value of a plain lock behind its fence. By this length release.lua knows
// it from a token.
const endingBytes = len(" +") + redlock.IDBytes + len(" ") + redlock.OwnerBytes

// appendEnding appends the value of a plain lock behind its fence. It stands for that one grant: no other has
// its id.
func appendEnding[ID string | []byte](b []byte, id ID, token string) []byte {
	return redlock.AppendOwner(append(append(append(b, " +"...), id...), ' '), token)
}

// appendPlain appends the value of a plain lock, as a bulk string: "lockproxy 1 <fence> +<id> <owner>".
func appendPlain[ID string | []byte](req []byte, fence int64, id ID, token string) []byte {
	var digits [20]byte
	number := strconv.AppendInt(digits[:0], fence, 10)
	const head = "lockproxy 1 "
	size := len(head) + len(number) + len(" +") + len(id) + len(" ") + redlock.OwnerBytes
	req = append(strconv.AppendInt(append(req, '$'), int64(size), 10), "\r\n"...)
	return append(appendEnding(append(append(req, head...), number...), id, token), "\r\n"...)
}

// Releasing is a call of release.lua. Fence, Named or Keeper says which grant is meant; without them it is
// the one that the token has, unless this proxy has asked for it since Fresh was made.
type Releasing struct {
	*redlock.Release
	Fresh  [redlock.IDBytes]byte // its id, unless its client has named it
	Plain  [redlock.IDBytes]byte // the request whose grant of a plain lock is meant; zero: any
	Known  int64                 // the fence that the token had; 0: not known
	Keeper string                // for that keeper, which has no other id; "": for a client
	Freeing
}

// Call is the call of r. buf is as that of eval. It has two arguments if that will do, which is nearly
// always; three with a fence, a name or a keeper; and four if the fence's key is no key of the call.
func (r *Releasing) Call(buf []byte, n *redlock.Names) Call {
	plain := r.Plain[0] != 0
	c := eval(buf, n, &Release, plain || r.Apart, r.Name)
	if plain {
		req := append(strconv.AppendInt(append(c.Req, '$'), int64(endingBytes), 10), "\r\n"...)
		c.add(append(appendEnding(req, r.Plain[:], r.Token), "\r\n"...))
	} else {
		c.Owner(r.Token)
	}
	var space [128]byte
	id, after := r.ID(), r.Next
	if plain {
		after = OfferNext
	}
	request := append(space[:0], r.Keeper...)
	if r.Keeper == "" {
		request = append(request, id[:]...)
	}
	request = append(append(append(request, ' '), r.Proxy...), ' ')
	request = append(append(append(append(request, r.Publish...), ' '), after...), ' ')
	switch known := cmp.Or(r.Fence, r.Known); {
	case plain, r.Apart, r.Named != "", known == 0:
	default:
		request = strconv.AppendInt(request, known, 10)
	}
	c.Bytes(request)
	switch {
	case plain:
		return c.whole()
	case r.Keeper != "":
		c.Text(r.Keeper)
		return c.whole()
	case r.Fence != 0:
		c.Number(r.Fence)
	case r.Named != "":
		c.Bytes(r.Fresh[:])
	case r.Apart:
		c.Text("")
	}
	if r.Apart {
		c.fenceKey(n)
	}
	return c.whole()
}

// ID is the id of the request: Fresh, unless its client has given it a name.
func (r *Releasing) ID() (id [redlock.IDBytes]byte) {
	if id = r.Fresh; r.Named != "" {
		copy(id[:], redlock.NameOf(r.Token, r.Named))
	}
	return id
}

// Answered is the call that looks for the answer that r was given before. It changes nothing.
func (r Releasing) Answered(n *redlock.Names) Call {
	c := beginCall(nil, &Release, 1)
	c.Slot = n.Place(r.Name).Slot
	c.fenceKey(n)
	c.Text("")
	id := r.ID()
	c.Text(string(id[:]) + " - - -")
	return c.whole()
}

// After says what becomes of a lock that a script frees. release.lua describes the words.
type After string

const (
	// The first waiter gets the lock in the same step if it waits at this proxy; otherwise it is offered the
	// lock.
	GrantNext After = "grant"
	// The first waiter is offered the lock, wherever it waits.
	OfferNext After = "offer"
	// There is no queue in Redis: all who listen are told. With TellOthers this proxy needs no message.
	TellAll    After = "tell"
	TellOthers After = "tell-others"
)

// Freeing says how a script frees a lock. It is the same for release.lua and cancel.lua.
type Freeing struct {
	Proxy, Publish string // this proxy, and the command that wakes waiters
	Next           After  // what becomes of the lock
	Apart          bool   // the lock is the only key, so Next is OfferNext: a grant needs a fence
}

// appendTo appends three arguments of cancel.lua. They are ARGV 3 to 5.
func (f *Freeing) appendTo(c *Call) {
	c.Text(f.Proxy)
	c.Text(f.Publish)
	c.Text(string(f.Next))
}

// CancelCall is the call of cancel.lua for the LOCK with that id. It takes back what that LOCK has done,
// unless its client was told of it since.
func CancelCall(n *redlock.Names, f Freeing, name, token, id string) Call {
	c := eval(nil, n, &Cancel, f.Apart, name)
	c.Owner(token)
	c.Text(id)
	f.appendTo(&c)
	return c.whole()
}

// BreakCall is the call of cancel.lua that ends what was there before the request id. A copy of it may end
// the next hold.
func BreakCall(n *redlock.Names, f Freeing, name string, id [redlock.IDBytes]byte) Call {
	c := eval(nil, n, &Cancel, f.Apart, name)
	c.Text("")
	c.Bytes(id[:])
	f.appendTo(&c)
	if f.Apart {
		c.fenceKey(n)
	}
	return c.whole()
}

// HandedOn says who got a lock that was freed: a waiter of this proxy, "" for nobody. Its client has not
// asked for that: the Grant has to be brought to it (wait.Queues.HandOver).
type HandedOn struct {
	Waiter string
	Grant  redlock.Grant // At is not known here
}

// notDeleted are the replies to a DeleteCall that say that the key has another value, or is no string: of
// both commands, of DELIFEQ, and of DELEX.
var notDeleted = [][]byte{[]byte(":0"), []byte("-WRONGTYPE "), []byte("-ERR Key should be of string type")}

// ReadDeleted makes the reply to a DeleteCall that of release.lua: 1, or nil. unable says that the server
// cannot, or may not, run that command. Then nothing was deleted.
func ReadDeleted(reply []byte) (asFreed []byte, unable bool) {
	unable = resp.Forbidden(reply)
	says := func(words []byte) bool { return bytes.HasPrefix(reply, words) }
	if unable || slices.ContainsFunc(notDeleted, says) {
		return resp.Null(2), unable
	}
	return reply, false
}

// ReadFreed reads the reply of a script that frees a lock and may hand it on: release, cancel. Released.Held
// says that there was something to free. ErrAgain: the request was overtaken, or BREAK has more to end.
func ReadFreed(reply []byte) (r redlock.Released, to HandedOn, err error) {
	if n, rest, ok := cutInteger(reply); ok && len(rest) == 0 { // nearly all of them
		return redlock.Released{Held: true, Whole: n == 1}, to, nil
	}
	v, err := ReadValue(reply)
	switch {
	case err != nil, v.Null():
		return r, to, err
	case v.Kind == ':': // it was overtaken
		return r, to, redlock.ErrAgain
	case len(v.Elems) == 2:
		return redlock.Released{Held: true, Whole: true, Keeper: v.Elems[1].Text()}, to, nil
	case len(v.Elems) == 4, len(v.Elems) == 5:
		r = redlock.Released{Held: true, Whole: true}
		if len(v.Elems) == 5 {
			r.Keeper = v.Elems[4].Text()
		}
		g := redlock.Grant{Fence: v.Elems[2].Int, TTL: ms(v.Elems[3].Int), Count: 1}
		return r, HandedOn{v.Elems[1].Text(), g}, nil
	}
	return r, to, ErrReply
}
