package proxy

import "context"

// Turns returns nil once each loop of s has had a round, and the error of ctx if that ends before.
func Turns(ctx context.Context, s *Server) error {
	turned := make(chan struct{}, len(s.workers))
	asked := 0
	for _, w := range s.workers {
		if w.loop.Post(func() { turned <- struct{}{} }) {
			asked++ // the others have ended in good order
		}
	}
	for range asked {
		select {
		case <-turned:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
