package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// newRueidisLocks are the locks of rueidislock over one Redis, as cheap as it can keep them. It waits by
// client-side caching, for which a process has one connection.
func newRueidisLocks(addr string) (rueidislock.Locker, error) {
	return rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true},
		KeyMajority:    1,
		KeyValidity:    lease,
		NoLoopTracking: true,
		TryNextAfter:   time.Second, // its 20 ms are over before a busy machine has answered
	})
}

// rueidisLocker is one who wants a lock of rueidislock.
type rueidisLocker struct {
	all     rueidislock.Locker
	own     bool // nobody else uses all
	key     string
	release context.CancelFunc
}

func (l *rueidisLocker) lock(ctx context.Context) (err error) {
	_, l.release, err = l.all.WithContext(ctx, l.key)
	return err
}

func (l *rueidisLocker) unlock(context.Context) error {
	l.release() // it returns when Redis has answered
	return nil
}

func (l *rueidisLocker) close() {
	if l.own {
		l.all.Close()
	}
}
