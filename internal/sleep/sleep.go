// Package sleep waits for a time that may be cut short.
package sleep

import (
	"context"
	"time"
)

// For waits for d. It reports false if ctx ends before.
func For(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
