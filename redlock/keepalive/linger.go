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
		if lingers = h.of.Linger > 0 && h.state.kept(); lingers {
			h.k.lingerers.addLingerer(h, host, func() { let(h) })
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
	return k.lingerers.byHost[host]
}

// lingerers are the holds that linger. Renewer.mu guards them.
type lingerers struct {
	all    map[*Kept]lingering
	byHost map[string]int // how many, by the hosts of their clients
}

// lingering is what a hold has whose connection broke, and that goes on.
type lingering struct {
	host  string
	timer *time.Timer // ends it
}

// addLingerer has h linger, which end ends, unless it does so already.
func (l *lingerers) addLingerer(h *Kept, host string, end func()) {
	if _, known := l.all[h]; known {
		return
	}
	l.all[h] = lingering{host, time.AfterFunc(h.of.Linger, end)}
	l.byHost[host]++
}

// removeLingerer says that h, which has ended, lingers no more.
func (l *lingerers) removeLingerer(h *Kept) {
	one, known := l.all[h]
	if !known {
		return
	}
	one.timer.Stop()
	delete(l.all, h)
	if l.byHost[one.host]--; l.byHost[one.host] == 0 {
		delete(l.byHost, one.host)
	}
}
