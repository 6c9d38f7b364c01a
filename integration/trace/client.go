package trace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// client is one client of the locks, which does one thing after the other.
type client struct {
	r      *Running
	n      int
	keys   []string // of its group
	random *rand.Rand
	next   int // number of the next token
	age    int // how often an outcome was unknown: no token is used beyond that
	conns  int
	fresh  time.Duration // when the connection last answered

	third *client // looks at locks behind the answers to this one; nil: nobody does

	link atomic.Pointer[link] // nil: there is no connection
	rest atomic.Int64         // how long before the next call

	held   map[string]*own // by key: what it holds, as far as it knows
	stale  map[string]Op   // by key: an earlier grant
	recent []Op            // grants through the connection
}

// link is a connection of a client.
type link struct {
	Conn
	proxy int
	ended atomic.Value // errDropped, errCut: who closes it on purpose, or has
}

// own is what a client knows of its hold.
type own struct {
	grant Op
	until time.Duration // its lease may last until then
}

func newClient(r *Running, n int) *client {
	c := &client{r: r, n: n, random: rand.New(rand.NewPCG(r.Seed, uint64(n))), held: map[string]*own{},
		stale: map[string]Op{}}
	groups := max(1, min(r.Groups, len(r.Keys)))
	for i := n % groups; i < len(r.Keys); i += groups {
		c.keys = append(c.keys, r.Keys[i])
	}
	return c
}

func (c *client) chance(percent int) bool { return c.random.IntN(100) < percent }

// between is so many ms, which are whole, as leases and times to wait are.
func (c *client) between(a, b int64) time.Duration { return millis(a + c.random.Int64N(b-a+1)) }

func (c *client) run() {
	defer c.close()
	if c.third != nil {
		defer c.third.close()
	}
	for c.r.Now() < c.r.For {
		time.Sleep(time.Duration(c.random.ExpFloat64()*float64(c.r.Think)) + time.Duration(c.rest.Swap(0)))
		c.act(c.keys[c.random.IntN(len(c.keys))])
	}
	for _, key := range c.keys { // so that nobody waits for a whole lease
		if own := c.held[key]; own != nil {
			c.call(Op{Verb: Unlock, Key: key, Token: own.grant.Token})
		}
	}
}

// act does one thing with a lock.
func (c *client) act(key string) {
	if c.r.Keepalive && c.chance(2) || c.r.Linger && c.chance(2) {
		c.end()
	}
	own := c.held[key]
	if own != nil && !own.grant.Keep && c.r.Now() > own.until && c.chance(50) {
		delete(c.held, key)
		own = nil
	}
	switch {
	case c.r.Breaks && c.chance(2):
		c.call(Op{Verb: Free, Key: key})
	case own != nil:
		c.use(key, own)
	case c.chance(12):
		c.meddle(key)
	case c.r.Sets && c.chance(15) && c.acquireSet():
	default:
		c.acquire(key)
	}
}

// use does one thing with a lock that the client holds.
func (c *client) use(key string, own *own) {
	o := Op{Key: key, Token: own.grant.Token}
	by := func(v Verb) { // now and then by the fence of the grant
		if o.Verb = v; c.chance(40) {
			o.Only = own.grant.Fence
		}
	}
	p := c.random.IntN(100)
	switch permit := own.grant.Verb == Permit; {
	case c.chance(50) && c.useSet(own.grant):
		return
	case c.r.Guards && c.chance(20):
		by(Guard)
	case p < 50:
		by(Unlock)
	case p < 60:
		o.Lease = c.lease()
		c.keep(&o)
		by(Renew)
	case p < 70:
		o.Verb = Check
	case p < 82:
		o.Verb, o.Lease, o.Permits = own.grant.Verb, c.lease(), own.grant.Permits
		o.Reentrant = !permit && c.chance(60)
		c.keep(&o)
		c.outlast(&o)
	case p < 92 && c.r.Upgrades && !permit:
		o.Verb, o.Switch, o.Lease, o.Reentrant = Read, true, c.lease(), c.chance(30)
		if own.grant.Verb == Read {
			o.Verb, o.Wait = Write, c.wait()
		}
		o.Notify = c.r.Notify && o.Wait > 0 && c.chance(50)
		c.age++ // should it be given up as a reader, then LOCK under its token would be an upgrade
	case p < 96:
		c.meddle(key)
		return
	default: // leave it to its lease, if that is short
		if !own.grant.Keep && own.until-c.r.Now() < 500*time.Millisecond {
			delete(c.held, key)
		}
		return
	}
	c.call(o)
}

// acquire asks for a lock that the client does not hold.
func (c *client) acquire(key string) {
	o := Op{Verb: Write, Key: key, Lease: c.lease()}
	if c.chance(45) {
		o.Verb = Read
	}
	n := c.r.Semaphores[key]
	misfit := n > 0 && c.chance(8) || c.r.Semaphores != nil && c.chance(2)
	switch {
	case misfit && c.chance(50):
		o.Verb, o.Permits = Permit, n+1
	case !misfit && n > 0:
		o.Verb, o.Permits = Permit, n
	}
	o.Token = c.token()
	if !misfit && c.chance(50) { // one that is used again and again, in one mode
		o.Token = fmt.Sprintf("c%d%s%d", c.n, o.Verb, c.age)
	}
	switch p := c.random.IntN(100); {
	case p < 45:
		o.Wait = c.wait()
	case p < 55:
		o.Tries, o.Every = 2+c.random.IntN(3), c.between(5, 40)
	}
	c.keep(&o)
	c.outlast(&o)
	o.Notify = c.r.Notify && o.Wait+o.Every > 0 && c.chance(50)
	if c.r.Breaks && o.Verb != Permit && o.Wait+o.Every == 0 && c.chance(15) {
		o.Break, o.Token = true, c.token()
	}
	o = c.call(o)
	if o.Outcome == Unknown && c.r.Now() < c.r.For && c.chance(50) { // as clients do that lost the connection
		o.Wait, o.Tries, o.Every, o.Notify, o.Break = 0, 0, 0, false, false
		c.call(o)
	}
}

// keep has o ask now and then for its hold to be kept alive, often also for some time after the end of the
// connection. Such a hold has no short lease, because that might be over before it is renewed, on a machine
// that stands still for a moment; and it often lingers for longer than its lease.
func (c *client) keep(o *Op) {
	if o.Keep = c.r.Keepalive && c.chance(20); !o.Keep || !c.r.Linger || c.chance(40) {
		return
	}
	o.Linger = c.between(300, 2500)
	o.Lease = c.r.Shortest + 500*time.Millisecond
}

// outlast has o ask now and then to keep others out for longer than its hold may last.
func (c *client) outlast(o *Op) {
	often := 15
	if o.Keep || c.held[o.Key] != nil && c.held[o.Key].grant.AtLeast > 0 {
		often = 40
	}
	if lease := o.Lease.Milliseconds(); c.r.AtLeast && c.chance(often) {
		o.AtLeast = c.between(min(lease/10, 200), min(lease, 400))
	}
}

// meddle tries what must come to nothing: to free, to renew or to rely on a hold without
// being its owner, or by the fence of another grant. R8 R17
func (c *client) meddle(key string) {
	o := Op{Verb: Unlock, Key: key, Token: c.token()}
	if old, ok := c.stale[key]; ok {
		o.Token, o.Only = old.Token, old.Fence
	}
	own := c.held[key]
	mine := own != nil && c.chance(50)
	if mine {
		o.Token, o.Only = own.grant.Token, own.grant.Fence-1
	}
	switch {
	case c.r.Guards && !mine && c.chance(40): // that fence may be somebody else's
		o.Verb = Guard
	case c.chance(30):
		o.Verb, o.Lease = Renew, c.lease()
	}
	c.call(o)
}

func (c *client) token() string {
	c.next++
	return fmt.Sprintf("c%d-%d", c.n, c.next)
}

func (c *client) lease() time.Duration {
	if c.chance(50) {
		return c.r.Shortest + c.between(60, 300)
	}
	return c.r.Shortest + c.between(500, 1500)
}

func (c *client) wait() time.Duration {
	if c.chance(30) {
		return c.between(10, 100)
	}
	return c.between(300, 2500)
}

// hanging is how long after its wait is over a call counts as never answered.
const hanging = 15 * time.Second

// call makes one call and remembers what came of it.
func (c *client) call(o Op) Op {
	o.Outcome, o.Fence, o.TTL, o.Count, o.Err = "", 0, 0, 0, ""
	o.Client = c.n
	link := c.connect()
	if link == nil {
		return o // nobody was asked
	}
	o.Proxy, o.Conn, o.Call = link.proxy, c.conns, c.r.Now()
	r, err := link.Do(o.Wait+time.Duration(o.Tries)*2*o.Every+hanging, o.Args()...)
	o.Return = c.r.Now()
	why := c.closed()
	if why == errCut && errors.Is(err, ErrMessages) {
		why = nil // the proxy did not
	}
	if err != nil && why != nil {
		err = why
	}
	ops := o.parts(r, err)
	o = ops[0]
	if o.Verb != Look || o.Outcome == Done { // an INFO that is not answered tells nothing
		c.r.record(ops...)
	}
	if err != nil {
		c.drop(why)
	} else {
		c.fresh = o.Return
	}
	for _, op := range ops {
		c.learn(op)
	}
	if c.third != nil && c.chance(12) {
		c.third.call(Op{Verb: Look, Key: o.Key})
	}
	if o.noQuorum() { // as clients do that are told to come back later
		time.Sleep(c.between(20, 150))
	}
	return o
}

// learn keeps what the client knows of its holds.
func (c *client) learn(o Op) {
	if o.Outcome == Unknown {
		c.age++
	}
	held := c.held[o.Key]
	mine := held != nil && held.grant.Token == o.Token
	switch {
	case o.Outcome == Granted:
		keep := o.Keep || mine && held.grant.Keep
		c.forgetLinger(o)
		c.held[o.Key] = &own{o, o.Return + o.TTL}
		c.held[o.Key].grant.Keep = keep
		c.stale[o.Key] = o
		c.recent = append(c.recent, o)
	case o.Outcome == Lost && held != nil && held.grant.Fence == o.Fence:
		delete(c.held, o.Key)
	case !mine, o.Verb == Check, o.Verb == Guard, o.Outcome == Lost:
	case o.acquires() && o.Outcome != Unknown: // still held, as far as it knows
	case o.Outcome == Unknown, // never used again
		o.Verb == Unlock && o.Outcome == Done && o.Count == 1,
		o.Outcome == Null && (o.Only == 0 || o.Only == held.grant.Fence):
		delete(c.held, o.Key)
	case o.Verb == Renew && o.Outcome == Done:
		held.until = o.Return + o.TTL
		if o.Keep {
			held.grant.Keep = true
			c.forgetLinger(o)
			c.recent = append(c.recent, o)
		}
	}
}

// forgetLinger has the hold go on, when the connection ends, for as long as o says, not as was said before.
func (c *client) forgetLinger(o Op) {
	for i, g := range c.recent {
		if o.Keep && g.Keep && g.Key == o.Key && g.Token == o.Token {
			c.recent[i].Linger = o.Linger
		}
	}
}

// connect returns the connection, a new one if need be; nil: it cannot be had now.
func (c *client) connect() *link {
	if c.closed() == errDropped {
		c.drop(nil)
	}
	for c.link.Load() == nil && c.r.Now() < c.r.For {
		proxy := c.random.IntN(c.r.Proxies)
		conn, err := c.r.Dial(proxy)
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		c.link.Store(&link{Conn: conn, proxy: proxy})
		c.fresh = c.r.Now()
		c.conns++
	}
	return c.link.Load()
}

// kill closes the connection at once, whatever it waits for.
func (c *client) kill() {
	if l := c.link.Load(); l != nil {
		l.ended.Store(errDropped)
		l.Close()
	}
}

// shut notes that the proxy closes the connection, and returns that; nil: there is none.
func (c *client) shut() *link {
	l := c.link.Load()
	if l != nil {
		l.ended.CompareAndSwap(nil, errCut)
	}
	return l
}

// closed says who has closed the connection on purpose: errDropped, errCut or, if nobody has, nil.
func (c *client) closed() (who error) {
	if l := c.link.Load(); l != nil {
		who, _ = l.ended.Load().(error)
	}
	return who
}

// drop forgets the connection, which is broken since it last answered: what it kept alive may be let go,
// unless it was the proxy that closed it (errCut).
func (c *client) drop(why error) {
	c.hangUp()
	if why == errCut {
		c.tell(Cut, c.fresh, c.r.Now(), why)
	} else {
		c.tell(Drop, c.fresh, c.fresh, why)
	}
}

// tell records of each hold that was kept alive over the connection what became of that, some time between at
// and until, and why. Half of the holds of a connection that the client has ended it forgets.
func (c *client) tell(what Verb, at, until time.Duration, why error) {
	for _, g := range c.recent {
		if !g.Keep {
			continue
		}
		o := Op{Client: c.n, Proxy: g.Proxy, Conn: g.Conn, Key: g.Key, Verb: what, Token: g.Token,
			Lease: g.Lease, Keep: g.Keep, Linger: g.Linger, Call: at, Return: until, Outcome: Unknown}
		if why != nil {
			o.Err = why.Error()
		}
		c.r.record(o)
		held := c.held[g.Key]
		if what == Close && held != nil && held.grant.Token == g.Token && c.chance(50) {
			delete(c.held, g.Key)
		}
	}
	c.recent = nil
}

// end ends the connection, or what is kept alive over it, in one of the ways that there are.
func (c *client) end() {
	link := c.link.Load()
	if link == nil || c.closed() != nil || !c.r.Linger || c.chance(50) {
		c.close()
		return
	}
	at, how := c.r.Now(), []string{"QUIT", "RESET"}[c.random.IntN(2)]
	if _, err := link.Do(hanging, how); err != nil {
		c.drop(nil)
		return
	}
	for i := range c.recent {
		c.recent[i].Linger = 0
	}
	c.tell(Close, at, c.r.Now(), errQuit)
	if how == "QUIT" {
		c.hangUp()
		return
	}
	c.conns++ // what it keeps alive from now on is another matter
}

// close ends the connection as a client does that is done, or that goes on over another one with what it
// holds.
func (c *client) close() {
	if c.closed() != nil {
		c.drop(nil)
		return
	}
	c.tell(Close, c.r.Now(), c.r.Now(), nil)
	c.hangUp()
}

// hangUp closes the connection.
func (c *client) hangUp() {
	if l := c.link.Swap(nil); l != nil {
		l.Close()
	}
}
