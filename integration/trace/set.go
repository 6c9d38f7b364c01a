package trace

import (
	"slices"
	"strings"
)

// A call of MLOCK, MUNLOCK or MRENEW is an op of each of its locks, as if they were asked for one by one at
// the same time. Its locks are chosen so that nobody holds one of them under its token before.

// vain is the error of an op of a set that has not done what was asked, and is over when that is said: the
// lock may have been held, or freed, until then.
const vain = "VAIN "

// inVain says that.
func (o *Op) inVain() bool { return strings.HasPrefix(o.Err, vain) }

// parts are the ops that were answered so: one of each lock.
func (o Op) parts(r Reply, err error) (all []Op) {
	if len(o.Set) == 0 {
		o.read(r, err)
		return []Op{o}
	}
	for i, key := range o.Set {
		o.Key = key
		part := o
		part.readPart(i, r, err)
		all = append(all, part)
	}
	return all
}

// readPart fills in what a reply says of the i-th lock.
func (o *Op) readPart(i int, r Reply, err error) {
	n := len(o.Set)
	switch {
	case err != nil || r.Error != "":
		o.read(r, err)
		taken := strings.HasPrefix(r.Error, "TRYAGAIN one of the locks was taken away")
		taken = taken && !strings.Contains(r.Error, "may hold what it asked for")
		if taken || o.Outcome == Lost || o.Outcome == Refused { // of any of the locks
			o.Outcome, o.Fence, o.Err = Unknown, 0, vain+r.Error
		}
	case o.Verb == Write && r.Null:
		o.Outcome, o.Err = Unknown, vain+"others hold one of the locks"
	case o.Verb == Write && len(r.Array) == n+1:
		o.Outcome, o.Fence, o.Count = Granted, r.Array[i], 1
		o.TTL = millis(r.Array[n])
	case o.Verb == Renew && r.Array == nil && r.Int > 0: // the least of all
		o.Outcome, o.TTL = Done, millis(r.Int)
	case o.Verb == Renew && r.Array == nil: // those that it holds are renewed
		o.Outcome, o.Err = Unknown, vain+"not all are held"
	case o.Verb == Unlock && r.Array == nil && r.Int == int64(n):
		o.Outcome, o.Count = Done, 1
	case o.Verb == Unlock && r.Array == nil && r.Int == 0:
		o.Outcome = Null
	case o.Verb == Unlock && r.Array == nil && r.Int < int64(n):
		o.Outcome, o.Err = Unknown, vain+"some were freed"
	default:
		o.read(Reply{Array: []int64{}}, nil) // makes no sense
	}
}

// acquireSet asks for several locks that the client does not hold, in any order. It reports whether there are
// such.
func (c *client) acquireSet() bool {
	o := Op{Verb: Write, Token: c.token(), Lease: c.lease()}
	for _, i := range c.random.Perm(len(c.keys)) {
		if key := c.keys[i]; c.held[key] == nil && c.r.Semaphores[key] == 0 {
			o.Set = append(o.Set, key)
		}
	}
	if len(o.Set) < 2 {
		return false
	}
	if c.chance(60) {
		o.Wait = c.wait()
	}
	c.call(o)
	return true
}

// useSet frees or renews all locks of a set, if the client has all of them still. It reports whether it does.
func (c *client) useSet(of Op) bool {
	if len(of.Set) == 0 || slices.ContainsFunc(of.Set, func(key string) bool {
		own := c.held[key]
		return own == nil || own.grant.Token != of.Token || own.grant.Count > 1
	}) {
		return false
	}
	o := Op{Verb: Unlock, Token: of.Token, Set: of.Set}
	if c.chance(40) {
		o.Verb, o.Lease = Renew, c.lease()
	}
	c.call(o)
	return true
}
