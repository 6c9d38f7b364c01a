package locks

import (
	"context"
	"log/slog"
	"slices"

	"lockproxy/redlock"
)

// TellSelfWait logs that a client waits for a lock that its own connection took, if one of these tokens,
// which that connection was granted, still holds it. It says whether one does. It blocks until ctx ends.
func (l *Locker) TellSelfWait(
	ctx context.Context, name string, tokens []string, c *redlock.Client,
) bool {
	state, err := l.readState(ctx, name)
	if err != nil || !slices.ContainsFunc(tokens, func(t string) bool { return state.Held(t) != nil }) {
		return false
	}
	l.selfWaits.Write(l.o.Log, slog.LevelWarn, "a client waits for a lock that its own connection took",
		l.o.Names.Lock([]any{"client", c.Addr, "name", c.Name, "remedy", "if tasks share the connection, " +
			"an UNLOCK stands behind this LOCK: wait on a connection of its own, or with NOTIFY"}, name)...)
	return true
}
