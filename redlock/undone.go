package redlock

import (
	"log/slog"
	"time"

	"lockproxy/internal/journal"
)

// undoneAfter is how long it is tried to take something back before the log has it: most outages are over by
// then, and the log has them as such.
const undoneAfter = 10 * time.Second

// Undone logs what could not be taken back. In an outage that is each lock that was waited for. The zero
// value is ready. Safe for concurrent use.
type Undone struct{ lines journal.Again }

// Failed notes that what is tried since began has failed again.
func (u *Undone) Failed(log *slog.Logger, began time.Time, err error) {
	if time.Since(began) >= undoneAfter {
		u.lines.Write(log, slog.LevelWarn,
			"a lock that nobody waits for any more could not be given back yet", "err", err)
	}
}
