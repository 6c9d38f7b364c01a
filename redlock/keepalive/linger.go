package keepalive

import (
	"time"
)

// Break says that the connection of the hold broke, which came from host. The hold is kept alive for as long
// as its LINGER, unless Keep replaces it or it ends meanwhile; then let, which is Release or Forget, ends it.
// Without LINGER it does so at once. It never blocks and may be called again.
func (h *Kept) Break(host string, let func(*Kept)) {
	lingers := false
	h.k.changeHolds(func() {
		lingers = h.of.Linger > 0 && h.state.kept()
		if lingers && h.lingers == nil {
			h.lingers = &lingering{host, time.AfterFunc(h.of.Linger, func() { let(h) })}
			h.k.lingerers[host]++
		}
	})
	if !lingers {
		let(h)
	}
}

// Lingering is how many holds go on whose connections came from host and broke.
func (k *Renewer) Lingering(host string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lingerers[host]
}

// lingering is what a hold has whose connection broke, and that goes on.
type lingering struct {
	host  string
	timer *time.Timer // ends it
}

// endLinger says that h, which has ended, lingers no more. mu is held.
func (k *Renewer) endLinger(h *Kept) {
	if h.lingers == nil {
		return
	}
	h.lingers.timer.Stop()
	all, host := k.lingerers, h.lingers.host
	if all[host]--; all[host] == 0 {
		delete(all, host)
	}
}
