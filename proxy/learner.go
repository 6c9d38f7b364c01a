package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/commands/routes"
)

// tableRefresh is how often the upstream is asked whether its commands and limits have changed: modules come
// and go.
const tableRefresh = time.Minute

const (
	// maxFirstPause is the longest pause between two attempts to learn the commands at the start.
	maxFirstPause = time.Second
	// firstReminder is how often it is logged that they could not be learned yet.
	firstReminder = 10 * time.Second
)

// learner makes the command table from what the upstream has, at the start and whenever that changes. Safe
// for concurrent use.
type learner struct {
	s     *Server
	verbs []*commands.Command // the proxy's own verbs

	mu      sync.Mutex // held while the commands are learned
	command []byte     // the upstream's reply to COMMAND from which the table was made

	asked relearning // asks again when clients send unknown commands
}

// first learns the commands at the start. A master that answers late, or cannot be reached for a while, is
// asked again until ctx ends: only a Refusal is final.
func (l *learner) first(ctx context.Context) error {
	var said time.Time
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, maxFirstPause) {
		err := l.learn(ctx)
		var refused cluster.Refusal
		if err == nil || errors.As(err, &refused) {
			return err
		}
		l.s.o.Failed(err)
		if time.Since(said) >= firstReminder {
			said = time.Now()
			l.s.o.Log.Warn("the upstream's commands could not be learned yet", "err", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// learn makes the loops use a table of the commands that the upstream has.
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

// keep learns again and again, until the server ends.
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
		if s.lacks.refusal() != nil {
			s.lacks.ask(s.ctx, s)
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
