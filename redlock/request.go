package redlock

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// Mode is how a lock is held.
type Mode string

// The modes.
const (
	Write Mode = "w" // by one holder
	Read  Mode = "r" // by any number of readers
)

// Acquire asks for a lock. An Acquire is one request, however often it is sent:
// its ID makes it idempotent. With a Quorum each AcquireRequest is a request of its own.
type Acquire struct {
	Name      string
	Token     string
	Mode      Mode
	Lease     time.Duration
	Reentrant bool          // count a hold that the token has already
	Wait      time.Duration // how long it may stand in the queue; 0: not at all
	Keep      bool          // the proxy is going to keep the hold alive
	Meta      string        // said of the hold in State; "": nothing
	Sync      int           // replicas that must have the grant before it counts; see Confirm
	Named     string        // what its client calls it; the same again is counted once; "": nothing
	ID        string        // made by NewAcquire
	Keeper    string        // made by NewAcquire if Keep; else Kept.Keeper of the hold if whoever asks keeps it alive already, or ""

	fresh  bool    // NewAcquire made the token, which holds nothing yet
	unsure bool    // it may have run, or be still on its way: an attempt has failed
	w      *waiter // from AcquireRequest or Follows on, if it may wait
}

// Grant is a lock that was given.
type Grant struct {
	Token string
	Fence int64         // higher than that of every earlier grant of the lock
	TTL   time.Duration // what remains of the lease
	Count int64         // how many releases it takes
	At    time.Time     // Wait and Try: TTL counts from then at the earliest; handed over: from about then
}

// Errors besides those of the upstream. Redis's own error replies come as
// *ReplyError.
var (
	errReply = errors.New("redlock: the script's reply makes no sense")
)

// ReplyError is an error reply of Redis or of a script: LOCKTYPE, QUEUEFULL, and whatever
// Redis itself says.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// NewAcquire completes a: a token where none is named, an id, the default lease, and
// a keeper if it needs one.
func (l *Locker) NewAcquire(a Acquire) *Acquire {
	if a.Token == "" {
		a.Token, a.fresh = NewToken(), true
	}
	if a.Lease == 0 {
		a.Lease = l.Lease()
	}
	a.ID = l.newID(&a)
	if a.Keep {
		a.Keeper = l.NewKeeper()
	}
	return &a
}

// newID is an id for a, with what its client calls it.
func (l *Locker) newID(a *Acquire) string {
	id := l.ids.next()
	if a.Named == "" {
		return string(id[:])
	}
	return string(id[:]) + "," + nameOf(a.Token, a.Named)[:8]
}

// nameOf stands for what a client calls a request of a token's: letters and digits, as in ids.
func nameOf(token, named string) string {
	sum := sha256.Sum256([]byte(token + "\x00" + named))
	return hex.EncodeToString(sum[:8])
}

// NewKeeper is an id under which this proxy keeps one hold alive.
func (l *Locker) NewKeeper() string {
	return l.id + ":" + strconv.FormatUint(l.keepers.Add(1), 36)
}

// AcquireRequest is the command that tries to take the lock, and the slot whose
// master must get it. It may be sent again. ReadAcquire must read its reply, since from now
// on an a that may wait can be told that it has the lock.
func (l *Locker) AcquireRequest(a *Acquire) (slot int, req []byte) {
	if l.quorum != nil {
		return l.quorumRequest(a)
	}
	more := a.Keeper != "" || a.Meta != "" || l.grace.on()
	args := 12
	switch {
	case !more && a.Wait <= 0 && a.Mode == Write: // most of them
		slot, req = l.eval(&acquireScript, a.Name, 5)
		return slot, a.appendTo(req)
	case !more:
		args = 9
	}
	if a.Wait > 0 && a.w == nil {
		a.w = l.expect(a, l.place(a.Name))
	}
	slot, req = l.eval(&acquireScript, a.Name, args)
	req = a.appendTo(req)
	if a.Wait > 0 {
		req = redcon.AppendBulkString(req, l.id)
		req = appendNumber(req, max(time.Until(a.w.deadline), time.Millisecond).Milliseconds())
		req = l.appendMost(req, a.Mode, l.o.MaxQueue)
	} else {
		req = append(req, "$0\r\n\r\n$0\r\n\r\n"...)
		req = l.appendMost(req, a.Mode, 0)
	}
	req = redcon.AppendBulkString(req, l.publish())
	if more {
		req = redcon.AppendBulkString(req, a.Keeper)
		req = redcon.AppendBulkString(req, a.Meta)
		req = redcon.AppendBulkString(req, l.grace.master(slot))
	}
	return slot, req
}

// appendMost appends how many may wait for the lock, if any may, and how many may read it, if one of them
// asks.
func (l *Locker) appendMost(req []byte, m Mode, waiters int) []byte {
	var space [40]byte
	most := space[:0]
	if waiters > 0 {
		most = strconv.AppendInt(most, int64(waiters), 10)
	}
	if m == Read {
		most = strconv.AppendInt(append(most, ' '), int64(l.o.MaxReaders), 10)
	}
	return redcon.AppendBulk(req, most)
}

// appendTo appends the five arguments that say what is asked for.
func (a *Acquire) appendTo(req []byte) []byte {
	req = appendOwnerOf(req, a.Token)
	req = appendNumber(req, a.Lease.Milliseconds())
	req = redcon.AppendBulkString(req, string(a.Mode))
	req = redcon.AppendBulkString(req, a.ID)
	if a.Reentrant {
		return redcon.AppendBulkString(req, "1")
	}
	return redcon.AppendBulkString(req, "0")
}

// ReadAcquire reads the reply to AcquireRequest. ok: the lock is granted. Not ok and no error: others hold
// it, and if a may wait it stands in the queue: call Wait, or Undo. After an error call Undo, unless it is
// ErrAgain or Refused says that there is no need.
func (l *Locker) ReadAcquire(a *Acquire, reply []byte) (g Grant, ok bool, err error) {
	g, ok, err = l.readAcquire(a, reply)
	if ok || err != nil && err != ErrAgain {
		l.forget(a.w)
	}
	if err != nil && err != ErrAgain && !Refused(err) {
		a.unsure = true
	}
	return g, ok, err
}

func (l *Locker) readAcquire(a *Acquire, reply []byte) (g Grant, ok bool, err error) {
	if fence, rest, ok := cutInteger(reply); ok && len(rest) == 0 { // nearly all of them
		return Grant{Token: a.Token, Fence: fence, TTL: a.Lease, Count: 1}, true, nil
	}
	if g, ok = readGrant(a.Token, reply); ok {
		return g, true, nil
	}
	v, _, err := resp.Parse(reply)
	switch {
	case err != nil:
		return g, false, fmt.Errorf("%w: %w", errReply, err)
	case strings.HasPrefix(v.Err(), "MASTER "):
		return g, false, l.otherMaster(l.place(a.Name).slot, ReplyError(v.Err()))
	case strings.HasPrefix(v.Err(), "SWEEP "):
		return g, false, ErrAgain
	case v.Err() != "":
		return g, false, ReplyError(v.Err())
	case v.Null():
		return g, false, nil
	case v.Kind == ':': // it was overtaken
		a.ID = l.newID(a)
		return g, false, ErrAgain
	case len(v.Elems) == 3 && a.w != nil && l.quorum != nil:
		l.unserved(a.w, v.Elems[0].Int < 0, ms(v.Elems[1].Int), v.Elems[2].Text())
		return g, false, nil
	case len(v.Elems) == 3 && a.w != nil:
		l.queued(a.w, time.Duration(v.Elems[1].Int)*time.Millisecond, v.Elems[2].Str)
		return g, false, nil
	}
	return g, false, errReply
}

// readGrant reads {owner, fence, ttl, count}. It allocates nothing.
func readGrant(token string, reply []byte) (g Grant, ok bool) {
	rest, ok := bytes.CutPrefix(reply, []byte("*4\r\n$33\r\n"))
	if !ok || len(rest) < ownerBytes+2 {
		return g, false
	}
	rest = rest[ownerBytes+2:]
	var n [3]int64
	for i := range n {
		if n[i], rest, ok = cutInteger(rest); !ok {
			return g, false
		}
	}
	return Grant{Token: token, Fence: n[0], TTL: time.Duration(n[1]) * time.Millisecond, Count: n[2]}, len(rest) == 0
}

// cutInteger takes ":123\r\n" from b.
func cutInteger(b []byte) (n int64, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != ':' {
		return 0, b, false
	}
	for i, c := range b[1:] {
		if c == '\r' {
			return n, b[min(i+3, len(b)):], i > 0
		}
		if c-'0' > 9 {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return 0, b, false
}

// Refused says that err is an answer of the acquire script itself, and nothing was made, or that of
// too few masters, and what was made is being taken back.
func Refused(err error) bool {
	var said ReplyError
	if !errors.As(err, &said) {
		return false
	}
	word, _, _ := strings.Cut(string(said), " ")
	return word == "LOCKTYPE" || word == "QUEUEFULL" || word == "DEADLOCK" || word == "NOQUORUM"
}

// ReleaseRequest is the command that releases what token holds; fence, if not 0, is the one of the grant that
// is meant. It may be sent again; each call makes another request. ReadRelease reads its reply.
//
// A copy of it that comes late does nothing to a grant that this Locker has asked for since.
//
// named, if not "", is what its client calls it: sent again under that name, by any proxy, it is the same
// one.
func (l *Locker) ReleaseRequest(name, token string, fence int64, named string) (slot int, req []byte) {
	slot, req = l.eval(&releaseScript, name, 6)
	req = appendOwnerOf(req, token)
	id := l.ids.next()
	switch {
	case fence != 0:
		req = appendNumber(req, fence)
	case named != "":
		req = redcon.AppendBulk(req, id[:])
	default:
		req = append(req, "$0\r\n\r\n"...)
	}
	if named != "" {
		copy(id[:], nameOf(token, named))
	}
	req = redcon.AppendBulk(req, id[:])
	if l.quorum != nil && l.goesOn(name, string(id[:])) {
		req = redcon.AppendBulkString(req, l.id)
		req = redcon.AppendBulkString(req, l.publish())
		return slot, redcon.AppendBulkString(req, "3")
	}
	return slot, l.appendWaking(req)
}

// ReadRelease reads the reply to ReleaseRequest. ok: it was released (count 0) or counted down (count 1). Not
// ok and no error: the token holds nothing there. A waiter of this proxy that got the lock by it is told so.
// keeper is that of the hold that was released, for Unlocked, if this proxy had it and the reply is not one
// to a request that was sent again. After ErrAgain make a ReleaseRequest again, and send it.
func (l *Locker) ReadRelease(reply []byte) (released, ok bool, keeper string, err error) {
	if n, rest, ok := cutInteger(reply); ok && len(rest) == 0 { // nearly all of them
		return n == 1, true, "", nil
	}
	v, _, err := resp.Parse(reply)
	switch {
	case err != nil:
		return false, false, "", fmt.Errorf("%w: %w", errReply, err)
	case v.Err() != "":
		return false, false, "", ReplyError(v.Err())
	case v.Null():
		return false, false, "", nil
	case v.Kind == ':':
		return false, false, "", ErrAgain
	case len(v.Elems) == 2:
		return true, true, v.Elems[1].Text(), nil
	case len(v.Elems) == 4:
		l.handOver(v.Elems)
		return true, true, "", nil
	case len(v.Elems) == 5:
		l.handOver(v.Elems)
		return true, true, v.Elems[4].Text(), nil
	}
	return false, false, "", errReply
}

// RenewRequest is the command that makes the lease of token's hold last for lease from now on, if that is
// longer; fence, if not 0, is the one of the grant that is meant. keeper keeps the hold alive from now on; or
// it is Kept.Keeper of whoever does already, or "". It may be sent again, and a copy that comes late does
// nothing to a grant that this Locker has asked for since. ReadRenew reads its reply; without a new keeper
// that is what a client of RENEW gets.
func (l *Locker) RenewRequest(name, token string, lease time.Duration, fence int64, keeper string) (slot int, req []byte) {
	args := 3
	switch {
	case l.quorum != nil:
		args = 5
	case keeper != "":
		args = 4
	}
	slot, req = l.eval(&renewScript, name, args)
	req = appendOwnerOf(req, token)
	req = appendNumber(req, lease.Milliseconds())
	if fence != 0 {
		req = appendNumber(req, fence)
	} else {
		id := l.ids.next()
		req = redcon.AppendBulk(req, id[:])
	}
	if args > 3 {
		req = redcon.AppendBulkString(req, keeper)
	}
	if args > 4 {
		req = redcon.AppendBulkString(req, "1")
	}
	return slot, req
}

// ReadRenew reads the reply to RenewRequest: how long the lease is from now on, 0 if
// the token holds nothing there. The fence of the hold comes only with a new keeper.
func (l *Locker) ReadRenew(reply []byte) (left time.Duration, fence int64, err error) {
	v, _, err := resp.Parse(reply)
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("%w: %w", errReply, err)
	case v.Err() != "":
		return 0, 0, ReplyError(v.Err())
	case v.Kind == ':':
		return ms(v.Int), 0, nil
	case len(v.Elems) == 2:
		return ms(v.Elems[0].Int), v.Elems[1].Int, nil
	}
	return 0, 0, errReply
}

// BreakRequest is the command that ends whatever holds the lock. Sent again it could break the
// next hold, if another proxy has asked for that. ReadBreak reads its reply.
func (l *Locker) BreakRequest(name string) (slot int, req []byte) {
	slot, req = l.eval(&breakScript, name, 4)
	req = l.appendWaking(req)
	id := l.ids.next()
	return slot, redcon.AppendBulk(req, id[:])
}

// ReadBreak reads the reply to BreakRequest: false if the lock was free.
func (l *Locker) ReadBreak(reply []byte) (broken bool, err error) {
	broken, _, _, err = l.ReadRelease(reply)
	return broken, err
}

// cancelRequest is the command that takes back what a has made.
func (l *Locker) cancelRequest(a *Acquire) (slot int, req []byte) {
	slot, req = l.eval(&cancelScript, a.Name, 5)
	req = appendOwnerOf(req, a.Token)
	req = redcon.AppendBulkString(req, a.ID)
	return slot, l.appendWaking(req)
}

// detachRequest is the command that frees a hold, if keeper still has it. Its reply is that of
// BreakRequest.
func (l *Locker) detachRequest(name, token, keeper string) (slot int, req []byte) {
	slot, req = l.eval(&detachScript, name, 5)
	req = appendOwnerOf(req, token)
	req = redcon.AppendBulkString(req, keeper)
	return slot, l.appendWaking(req)
}

// appendWaking appends what the scripts need that pass a lock on: this proxy, the command that
// wakes others, and whether a waiter may get the lock at once.
func (l *Locker) appendWaking(req []byte) []byte {
	req = redcon.AppendBulkString(req, l.id)
	req = redcon.AppendBulkString(req, l.publish())
	switch {
	case l.quorum != nil: // there is no queue
		return redcon.AppendBulkString(req, "2")
	case l.grace.on():
		return redcon.AppendBulkString(req, "1")
	}
	return redcon.AppendBulkString(req, "0")
}

// publish is the command that wakes waiters.
func (l *Locker) publish() string {
	if l.upstream.Sharded() {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// eval begins the EVALSHA of s on the keys of a lock; args arguments follow. Most
// of an idle pipe's time goes into building these, so it is one allocation.
func (l *Locker) eval(s *Script, name string, args int) (n int, req []byte) {
	req = make([]byte, 0, 288+len(name))
	req = redcon.AppendArray(req, 3+s.keys+args)
	req = redcon.AppendBulkString(req, "EVALSHA")
	req = redcon.AppendBulkString(req, s.SHA)
	req = appendNumber(req, int64(s.keys))
	tagged := hasTag(name)
	size := len(l.o.Prefix) + len(name)
	if !tagged {
		size += 2
	}
	req = append(strconv.AppendInt(append(req, '$'), int64(size), 10), "\r\n"...)
	key := len(req)
	req = append(req, l.o.Prefix...)
	if tagged {
		req = append(req, name...)
	} else {
		req = append(append(append(req, '{'), name...), '}')
	}
	n = slot.Of(req[key:])
	req = append(req, "\r\n"...)
	if s.keys > 1 {
		tag := slot.Tag(n)
		req = append(strconv.AppendInt(append(req, '$'), int64(len(l.fences)+len(tag)+1), 10), "\r\n"...)
		req = append(append(append(req, l.fences...), tag...), "}\r\n"...)
	}
	return n, req
}

// appendNumber appends n as a bulk string.
func appendNumber(req []byte, n int64) []byte {
	var digits [20]byte
	return redcon.AppendBulk(req, strconv.AppendInt(digits[:0], n, 10))
}

// optional is a fence as the scripts take it: 0 is none.
func optional(fence int64) string {
	if fence == 0 {
		return ""
	}
	return strconv.FormatInt(fence, 10)
}
