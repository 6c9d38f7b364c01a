package commands_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/commands/lock"
	"lockproxy/internal/lockevent"
	"lockproxy/redlock/index"
	"lockproxy/redlock/locks"
)

// LOCK with BREAK is noted as what it did: it broke the holds of others, if there were any, and was granted.
// Its own hold, which becomes that of the writer, counts as released. R23
func TestTakeOverIsNoted(t *testing.T) {
	var mu sync.Mutex
	var events []string
	ledger := func(x *index.Index) *lock.Ledger {
		return lock.NewLedger(x, nil, func(e lockevent.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind != lockevent.Released {
				events = append(events, fmt.Sprint(e.Kind))
			}
		})
	}
	withLedger(t, locks.Options{Lease: time.Minute}, ledger, func(t *testing.T,
		ledger *lock.Ledger, session func() *client,
	) {
		a, b := session(), session()
		for _, step := range []struct{ command, want, events string }{
			{"LOCK job TOKEN a BREAK", "*[a", "granted"},
			{"LOCK job TOKEN b BREAK", "*[b", "broken granted"},
			{"LOCK job TOKEN b BREAK", "*[b", "granted"},
			{"UNLOCK job TOKEN a", "$nil", ""},
			{"UNLOCK job TOKEN b", "1", ""},
			{"RLOCK job TOKEN a", "*[a", "granted"},
			{"RLOCK job TOKEN b", "*[b", "granted"},
			{"WLOCK job TOKEN b BREAK", "*[b", "broken granted"},
			{"LOCK job TOKEN c", "$nil", ""},
			{"UNLOCK job TOKEN b", "1", ""},
		} {
			events = nil
			s := a
			if strings.Contains(step.command, "TOKEN b") {
				s = b
			}
			got := readable(s.Do(step.command))
			if seen := strings.Join(events, " "); !strings.HasPrefix(got, step.want) || seen != step.events {
				t.Errorf("%s: %s (%s), want %s (%s)", step.command, got, seen, step.want, step.events)
			}
			time.Sleep(time.Second)
		}
		if got, want := show(ledger.Times().Holds), `lock "" released: 2 5s
lock "" broken: 1 1s
rlock "" released: 1 1s
rlock "" broken: 1 2s
`; got != want {
			t.Errorf("holds:\n%s\nwant\n%s", got, want)
		}
	})
}
