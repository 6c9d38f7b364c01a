package redlock

import (
	"context"
	"time"
)

// insistFor bounds one attempt of Insist.
const insistFor = 5 * time.Second

// Insist tries something until it succeeds or ctx ends, with pauses that grow up to a second. failed is told
// why it has to be tried again. It blocks.
func Insist(ctx context.Context, try func(ctx context.Context) error, failed func(err error)) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		limited, cancel := context.WithTimeout(ctx, insistFor)
		err := try(limited)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		failed(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}
