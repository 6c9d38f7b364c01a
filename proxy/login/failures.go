package login

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// LogEvery is how often failures of one kind are logged; those in between are counted.
const LogEvery = 10 * time.Second

// Failures counts failed attempts to get in, by kind.
type Failures struct {
	Password Failure // the password is not that of requirepass
	User     Failure // the upstream does not let the user in
	Tls      Failure // the TLS handshake failed
}

// kinds names the kinds for the metrics.
func (f *Failures) kinds() map[string]*Failure {
	return map[string]*Failure{"password": &f.Password, "user": &f.User, "tls": &f.Tls}
}

// Totals is how often each kind happened.
func (f *Failures) Totals() map[string]uint64 {
	all := make(map[string]uint64)
	for kind, one := range f.kinds() {
		all[kind] = one.total.Load()
	}
	return all
}

// CatchUp logs how many failures were only counted, once enough time has passed without a line.
func (f *Failures) CatchUp(log *slog.Logger) {
	for kind, one := range f.kinds() {
		if n := one.unlogged(); n > 0 {
			log.Warn("more failures to get in", "kind", kind, "count", n)
		}
	}
}

// Failure counts and logs one kind, without filling the log however often it happens. Safe for concurrent
// use.
type Failure struct {
	total   atomic.Uint64
	mu      sync.Mutex
	quiet   time.Time // nothing is logged until then
	skipped uint64    // failures since the last line
}

// Note counts a failure and logs it, with the number of those that were not logged before it.
func (f *Failure) Note(log *slog.Logger, message string, attrs ...any) {
	f.total.Add(1)
	f.mu.Lock()
	now, skipped := time.Now(), f.skipped
	if now.Before(f.quiet) {
		f.skipped++
		f.mu.Unlock()
		return
	}
	f.quiet, f.skipped = now.Add(LogEvery), 0
	f.mu.Unlock()
	if skipped > 0 {
		attrs = append(attrs, "not_logged", skipped)
	}
	log.Warn(message, attrs...)
}

// unlogged takes the number of failures that were only counted. It is 0 while the log is to be quiet.
func (f *Failure) unlogged() (n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.skipped == 0 || time.Now().Before(f.quiet) {
		return 0
	}
	n, f.skipped = f.skipped, 0
	f.quiet = time.Now().Add(LogEvery)
	return n
}
