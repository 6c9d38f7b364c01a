package proxy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"lockproxy/commands"
	"lockproxy/commands/routes"
)

// tableRefresh is how often the upstream is asked whether its commands have
// changed, and its limits of them: modules come and go.
const tableRefresh = time.Minute

// maxFirstPause is the longest pause between two attempts to learn the commands at the start.
const maxFirstPause = time.Second

// learner makes the table of commands from what the upstream has, at the start and whenever that has changed.
// Safe for concurrent use.
type learner struct {
	s     *Server
	verbs []*commands.Command // of the proxy's own

	mu      sync.Mutex // is held while the commands are learned
	command []byte     // the upstream's COMMAND reply that the table was made of

	asked relearning // for clients whose commands are unknown
}

// first is learn at the start. A master that answers late is asked again,
// for the topology says that it is there.
func (l *learner) first(ctx context.Context) error {
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		err := l.learn(ctx)
		if err == nil || pause > maxFirstPause {
			return err
		}
		l.s.o.Log.Warn("the upstream's commands could not be learned yet", "err", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// learn has the loops use the table of commands that the upstream has.
func (l *learner) learn(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	command, err := l.s.upstream.Command(ctx)
	if err != nil {
		return fmt.Errorf("proxy: learning the upstream's commands: %w", err)
	}
	same := string(command) == string(l.command)
	l.command = command
	if same {
		return nil
	}
	table, err := routes.NewTable(command, l.verbs, l.s.o.Refused...)
	if err != nil {
		return fmt.Errorf("proxy: the upstream's commands: %w", err)
	}
	for _, w := range l.s.workers {
		w.loop.Post(func() { w.use(table) })
	}
	return nil
}

// keep learns anew until the server ends.
func (l *learner) keep() {
	s := l.s
	tick := time.NewTicker(tableRefresh)
	defer tick.Stop()
	for {
		s.limits.learn(s.upstream.Limits(s.ctx), s.o.Log)
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if err := l.learn(s.ctx); err != nil && s.ctx.Err() == nil {
			s.o.Log.Warn("the upstream's commands could not be learned anew", "err", err)
		}
	}
}

// again asks the upstream for its commands on behalf of clients that wait.
func (l *learner) again() {
	ctx, cancel := context.WithTimeout(l.s.ctx, relearnLimit)
	defer cancel()
	if err := l.learn(ctx); err != nil && l.s.ctx.Err() == nil {
		l.s.o.Log.Warn(
			"the upstream's commands could not be learned for a command that is unknown",
			"err",
			err,
		)
	}
}
