package keepalive

import (
	"sync/atomic"
	"time"
)

// lingering is what a hold has whose connection broke, and that goes on.
type lingering struct {
	host  string
	timer *time.Timer // ends it
}

// Break says that the connection of the hold broke, which came from host. The hold is kept alive for as long
// as its LINGER, unless Keep replaces it or it ends meanwhile; then let, which is Release or Forget, ends it.
// Without LINGER it does so at once. It never blocks and may be called again.
func (h *Kept) Break(host string, let func(*Kept)) {
	if !h.k.lingers(h, host, let) {
		let(h)
	}
}

// lingers says whether h goes on.
func (k *Renewer) lingers(h *Kept, host string, let func(*Kept)) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case h.linger <= 0 || h.state == over || h.state == freeing || k.closed:
		return false
	case h.after != nil:
		return true
	}
	h.after = &lingering{host, time.AfterFunc(h.linger, func() { let(h) })}
	k.lingerers.add(host)
	return true
}

// settled says that h, which has ended, lingers no more. mu is held.
func (k *Renewer) settled(h *Kept) {
	if h.after == nil {
		return
	}
	h.after.timer.Stop()
	k.lingerers.remove(h.after.host)
	h.after = nil
}

// Lingering is how many holds go on whose connections came from host and broke.
func (k *Renewer) Lingering(host string) int {
	if k.lingerers.n.Load() == 0 {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lingerers.byHost[host]
}

// lingerers counts the holds that linger. Renewer.mu guards it, but anybody may read n.
type lingerers struct {
	n      atomic.Int64
	byHost map[string]int // of their clients
}

func (l *lingerers) add(host string) {
	l.n.Add(1)
	l.byHost[host]++
}

func (l *lingerers) remove(host string) {
	l.n.Add(-1)
	if l.byHost[host]--; l.byHost[host] == 0 {
		delete(l.byHost, host)
	}
}
