package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted counts what it is told.
type counted struct{ forgot, closed int }

func (c *counted) Forget(*Acquire) { c.forgot++ }
func (c *counted) Close()          { c.closed++ }

// An outage of 30 s in which a hundred locks cannot be given back is a line: it has others besides. One of
// 8 s is none.
func TestUndoneIsFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		var away atomic.Bool
		var waiters counted
		u := NewUndoer(slog.New(slog.NewTextHandler(&text, nil)), &waiters, func(
			context.Context, *Acquire) error {
			if away.Load() {
				return errors.New("Redis is away")
			}
			return nil
		})
		outage := func(lasts time.Duration) {
			away.Store(true)
			for i := range 100 {
				u.Undo(&Acquire{Name: "job", Token: fmt.Sprint(i), Lease: time.Hour})
			}
			time.Sleep(lasts)
			synctest.Wait()
			away.Store(false)
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		if outage(8 * time.Second); text.Len() > 0 {
			t.Errorf("an outage of 8 s:\n%s", text.String())
		}
		outage(30 * time.Second)
		if n := strings.Count(text.String(), "\n"); n != 1 {
			t.Errorf("%d lines in 30 s:\n%s", n, text.String())
		}
		time.Sleep(time.Minute)
		outage(30 * time.Second)
		n := strings.Count(text.String(), "\n")
		if n != 2 || !strings.Contains(text.String(), "not_logged=") {
			t.Errorf("%d lines:\n%s", n, text.String())
		}
		u.Close(context.Background())
		if waiters.forgot != 300 || waiters.closed != 1 {
			t.Errorf("who waited for 300 locks: %+v", waiters)
		}
	})
}
