package proxy

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// failureLogEvery is how often a failure of one kind is logged; those between are counted.
const failureLogEvery = 10 * time.Second

// failures are the attempts to get in that failed, by what was wrong.
type failures struct {
	password failure // not that of requirepass
	user     failure // the upstream does not let the user in
	tls      failure // the handshake
}

// kinds names them for the metrics.
func (f *failures) kinds() map[string]*failure {
	return map[string]*failure{"password": &f.password, "user": &f.user, "tls": &f.tls}
}

// totals is how often each kind happened.
func (f *failures) totals() map[string]uint64 {
	all := make(map[string]uint64)
	for kind, one := range f.kinds() {
		all[kind] = one.total.Load()
	}
	return all
}

// catchUp logs how many failures were only counted, once nothing was logged for a while.
func (f *failures) catchUp(log *slog.Logger) {
	for kind, one := range f.kinds() {
		if n := one.unlogged(); n > 0 {
			log.Warn("more failures to get in", "kind", kind, "count", n)
		}
	}
}

// failure counts and logs one kind. Whoever tries as often as it can fills no log. Safe for concurrent use.
type failure struct {
	total   atomic.Uint64
	mu      sync.Mutex
	quiet   time.Time // until when nothing is logged
	skipped uint64    // since something was
}

// note counts a failure, and logs it with the number of those that were not logged before it.
func (f *failure) note(log *slog.Logger, message string, attrs ...any) {
	f.total.Add(1)
	f.mu.Lock()
	now, skipped := time.Now(), f.skipped
	if now.Before(f.quiet) {
		f.skipped++
		f.mu.Unlock()
		return
	}
	f.quiet, f.skipped = now.Add(failureLogEvery), 0
	f.mu.Unlock()
	if skipped > 0 {
		attrs = append(attrs, "not_logged", skipped)
	}
	log.Warn(message, attrs...)
}

// unlogged takes the number of failures that were only counted, 0 as long as the log is to be quiet.
func (f *failure) unlogged() (n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.skipped == 0 || time.Now().Before(f.quiet) {
		return 0
	}
	n, f.skipped = f.skipped, 0
	f.quiet = time.Now().Add(failureLogEvery)
	return n
}
