package line

import (
	"fmt"
	"slices"
)

// client makes its visits one after the other.
type client struct {
	*walk
	name   string
	visits []visit
	n      int
}

func (c *client) next() {
	if c.n == len(c.visits) {
		c.clients--
		return
	}
	v := c.visits[c.n]
	c.n++
	c.after(int64(v.Gap)*ms, func() {
		c.begin(&stay{client: c, visit: v, token: fmt.Sprintf("%s.%d", c.name, c.n)})
	})
}

// pick is a living proxy: that in this place, or the next one.
func (w *walk) pick(place int) *proxy {
	for i := range w.proxies {
		if p := w.proxies[(place+i)%len(w.proxies)]; !p.dead {
			return p
		}
	}
	return nil
}

// stay is a visit that goes on.
type stay struct {
	*client
	visit
	token string
	asks  []*ask // not over
	holds bool
	over  bool
}

func (c *client) begin(s *stay) {
	p := c.pick(s.Proxy)
	if p == nil {
		c.after(100*ms, func() { c.begin(s) })
		return
	}
	mode := Write
	switch {
	case c.Permits > 0:
		mode, s.Up, s.Break = Permit, false, false
	case s.Read:
		mode = Read
	}
	if s.Break {
		s.takeOver(p)
		return
	}
	s.ask(p, mode)
	if s.Also > 0 && s.Wait > 0 {
		c.after(int64(s.Also)*ms, func() {
			if other := c.pick(s.Proxy + 1); other != nil && !s.holds && !s.over {
				s.ask(other, mode)
			}
		})
	}
}

func (s *stay) want(mode Mode) want {
	s.requests++
	return want{id: fmt.Sprintf("%s/%d", s.token, s.requests), token: s.token, mode: mode,
		lease: int64(s.Lease) * ms, least: min(int64(s.Least), int64(s.Lease)) * ms, wait: s.Wait > 0}
}

// ask asks for the lock through p.
func (s *stay) ask(p *proxy, mode Mode) {
	a := &ask{proxy: p, want: s.want(mode)}
	s.asks = append(s.asks, a)
	a.over = func(string) { s.lost(a) }
	a.granted = func() { s.got(a) }
	p.open = append(p.open, a)
	p.on(p.now, func() { p.lock(a) })
	wait := int64(s.Wait) * ms
	if s.Quit > 0 {
		wait = min(wait, int64(s.Quit+s.Linger)*ms)
	}
	if s.Wait > 0 {
		p.on(p.now+wait, func() { p.timeout(a) })
	}
}

// timeout is the end of a wait, by time or because the client has gone.
func (p *proxy) timeout(a *ask) {
	if !a.told && !a.gone {
		p.leave(a)
		a.over("timeout")
	}
}

// lost is that an ask was in vain.
func (s *stay) lost(a *ask) {
	a.open = slices.DeleteFunc(a.open, func(b *ask) bool { return a == b })
	i := slices.Index(s.asks, a)
	if i < 0 {
		return
	}
	s.asks = slices.Delete(s.asks, i, i+1)
	if len(s.asks) == 0 && !s.holds && !s.over {
		s.over = true
		s.next()
	}
}

// got is that the token has the lock.
func (s *stay) got(a *ask) {
	if s.holds || s.over {
		return
	}
	s.holds = true
	for _, other := range slices.Clone(s.asks) {
		if other != a {
			s.lost(other)
			other.on(s.now, func() { other.leave(other) })
		}
	}
	s.lost(a)
	hold := int64(s.Hold) * ms
	if !s.Up {
		s.after(hold, func() { s.end(a.proxy) })
		return
	}
	s.after(hold/2, func() {
		end := func() { s.after(hold/2, func() { s.end(a.proxy) }) }
		if a.dead {
			end()
			return
		}
		mode := Write
		if !s.Read {
			mode = Read
		}
		up := &ask{proxy: a.proxy, want: s.want(mode)}
		up.granted, up.over = end, func(string) { end() }
		a.open = append(a.open, up)
		a.on(s.now, func() { a.lock(up) })
		if s.Wait > 0 {
			a.on(s.now+int64(s.Wait)*ms, func() { a.timeout(up) })
		}
	})
}

// takeOver is LOCK with BREAK.
func (s *stay) takeOver(p *proxy) {
	a := &ask{proxy: p, want: s.want(Write)}
	a.over = func(string) { s.lost(a) }
	s.asks = append(s.asks, a)
	p.open = append(p.open, a)
	p.on(p.now, func() {
		p.call(0, func() func() {
			p.redis.break_(p.id, &a.want)
			return func() { s.got(a) }
		}, func() { a.over("lost") }, false)
	})
}

// end ends the hold.
func (s *stay) end(p *proxy) {
	if s.End == "elsewhere" {
		p = s.pick(s.Proxy + 1)
	} else if p.dead {
		p = s.pick(s.Proxy)
	}
	done := func() {
		if !s.over {
			s.over = true
			s.next()
		}
	}
	switch {
	case s.End == "vanish" || p == nil:
		done()
	case s.End == "linger":
		p.on(s.now, func() {
			p.call(0, func() func() {
				p.redis.renew(s.token, int64(s.Lease)*ms)
				return func() {}
			}, func() {}, false)
		})
		s.End = "unlock"
		s.after(int64(s.Linger)*ms, func() { s.end(p) })
	default:
		p.on(s.now, func() { p.unlock(s.token, done) })
		s.after(30000*ms, done)
	}
}

// happen has a fault happen, and then the next ones.
func (w *walk) happen(faults []fault) {
	if len(faults) == 0 {
		return
	}
	f := faults[0]
	w.after(int64(f.Gap)*ms, func() {
		w.note("%s of %d for %d ms", f.Kind, f.Proxy%len(w.proxies), f.For)
		w.strike(f, w.proxies[f.Proxy%len(w.proxies)])
		w.happen(faults[1:])
	})
}

func (w *walk) strike(f fault, p *proxy) {
	d := int64(f.For) * ms
	switch f.Kind {
	case "freeze":
		if !p.dead {
			p.frozen = max(p.frozen, w.now+d)
			w.trouble()
		}
	case "kill":
		if p.dead {
			return
		}
		p.dead, p.died = true, w.now
		w.trouble()
		for _, a := range p.open {
			w.after(0, func() { a.over("dead") })
		}
		w.after(d, func() { w.newProxy(slices.Index(w.proxies, p)) })
	case "failover", "forget":
		w.failed = w.now
		w.trouble()
		if f.Kind == "failover" && len(w.before) > 0 {
			to := w.before[max(0, len(w.before)-1-w.rng.IntN(8))]
			w.redis.line, w.redis.holds = to.line, to.holds
			w.before = nil
		} else {
			w.redis.line = ""
			if f.For > 1000 {
				clear(w.redis.holds)
			}
		}
		for _, p := range w.all {
			p.born, p.ran = 0, 0
			p.on(w.now+w.rng.Int64N(detects), func() { p.line.Deaf() })
		}
	case "stall":
		d = min(d, 3000*ms)
		w.stalls += d
		w.stalled = max(w.stalled, w.now+d)
	case "full":
		w.redis.full = true
		w.after(d, func() { w.redis.full = false })
	case "break":
		p.on(w.now, func() {
			p.call(0, func() func() {
				p.redis.break_(p.id, nil)
				return func() {}
			}, func() {}, false)
		})
	}
}

// detects is how long it may take until a proxy knows of a fail-over.
const detects = 100 * ms
