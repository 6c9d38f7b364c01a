package proxy

import (
	"testing"

	"lockproxy/internal/lockevent"
	"lockproxy/proxy/watch"
)

// A command of a transaction that is refused since its client watches locks, or monitors, spoils the
// transaction, as any refused command does.
func TestRefusedInATransactionThatWatches(t *testing.T) {
	watching(t, func(h *heard, _ func(all ...lockevent.Event)) {
		h.answer = func(_ int, command string) string {
			switch command {
			case "MULTI", "DISCARD":
				return "+OK\r\n"
			case "EXEC":
				return "*1\r\n+PONG\r\n"
			}
			return "+QUEUED\r\n"
		}
		c := h.connect()
		c.send("LOCKCTL WATCH")
		c.expect("+OK\r\n")
		c.send("MULTI", "GET k", "PING", "EXEC")
		c.expect("+OK\r\n" + string(watch.Only) + "+QUEUED\r\n" +
			"-EXECABORT Transaction discarded because of previous errors.\r\n")
	})
}
