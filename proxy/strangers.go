package proxy

import "time"

// strangers are the clients of one loop that must authenticate and have not, with the time when that was
// first noticed. They belong to the loop.
type strangers map[*session]time.Time

// closeStrangers closes the clients that have been strangers for longer than limit; 0: none. It runs once a
// second.
func (w *worker) closeStrangers(limit time.Duration) {
	if limit <= 0 {
		clear(w.unknown)
		return
	}
	now := w.loop.Now()
	for s := range w.sessions {
		since, known := w.unknown[s]
		switch {
		case s.Authenticated:
			if known {
				delete(w.unknown, s)
			}
		case !known:
			w.unknown[s] = now
		case now.Sub(since) >= limit:
			w.server.authTimeouts.Add(1)
			w.server.o.Log.Debug("client closed: auth-timeout", "client", s.Addr)
			s.conn.Close()
		}
	}
}
