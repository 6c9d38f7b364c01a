package pipe

import "sync/atomic"

// OwnStats are the connections that are not shared, now.
type OwnStats struct {
	Used    int64 // somebody has them
	Idle    int64 // they are kept for the next one
	Waiting int64 // wanted, and there is no place for them
}

// ownCounters are the OwnStats of all loops together.
type ownCounters struct{ used, idle, waiting atomic.Int64 }

// Own returns the connections of all loops that are not shared.
func (s *Stats) Own() OwnStats {
	return OwnStats{Used: s.own.used.Load(), Idle: s.own.idle.Load(), Waiting: s.own.waiting.Load()}
}

// countOwn tells the stats how many connections of one's own there are now.
func (p *Pool) countOwn() {
	now := OwnStats{Used: int64(len(p.own)), Waiting: int64(len(p.queue))}
	for _, idle := range p.idle {
		now.Idle += int64(len(idle))
	}
	now.Used -= now.Idle
	p.stats.own.used.Add(now.Used - p.told.Used)
	p.stats.own.idle.Add(now.Idle - p.told.Idle)
	p.stats.own.waiting.Add(now.Waiting - p.told.Waiting)
	p.told = now
}
