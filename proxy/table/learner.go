// Package table has the command table as the upstream has it now.
package table

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/commands/routes"
)

// refresh is how often the upstream is asked whether its commands have changed: modules come and go. Unknown
// commands of clients have it asked sooner: see Again.
const refresh = time.Minute

const (
	// maxFirstPause is the longest pause between two attempts to learn the commands at the start.
	maxFirstPause = time.Second
	// firstReminder is how often it is logged that they could not be learned yet.
	firstReminder = 10 * time.Second
)

// Learner makes the command table from what the upstream has, at the start and whenever that changes. The
// first fields are set before its methods are called. Safe for concurrent use.
type Learner struct {
	Upstream interface {
		// Command returns the reply of COMMAND.
		Command(ctx context.Context) ([]byte, error)
	}
	Verbs   []*commands.Command   // the proxy's own verbs
	Refused []string              // commands that are refused by name
	Use     func(*commands.Table) // takes over each new table
	Failed  func(error)           // called by First with why it has to wait
	Log     *slog.Logger

	mu      sync.Mutex // held while the commands are learned
	command []byte     // the upstream's reply to COMMAND from which the table was made

	question tableQuestion // for clients that have sent unknown commands
}

// First learns the commands at the start. A master that answers late, or cannot be reached for a while, is
// asked again until ctx ends: only a Refusal is final. It blocks. Nobody is served before: without the table
// no command can be routed.
func (l *Learner) First(ctx context.Context) error {
	// The zero time: the first failure is logged at once.
	var said time.Time
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, maxFirstPause) {
		err := l.Learn(ctx)
		var refused cluster.Refusal
		if err == nil || errors.As(err, &refused) {
			return err
		}
		l.Failed(err)
		if time.Since(said) >= firstReminder {
			said = time.Now()
			l.Log.Warn("the upstream's commands could not be learned yet", "err", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// Learn makes the loops use a table of the commands that the upstream has. If nothing has changed the present
// table stays.
func (l *Learner) Learn(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	command, err := l.Upstream.Command(ctx)
	if err != nil {
		return fmt.Errorf("proxy: learning the upstream's commands: %w", err)
	}
	if string(command) == string(l.command) {
		return nil
	}
	table, err := routes.NewTable(command, l.Verbs, l.Refused...)
	if err != nil {
		return fmt.Errorf("proxy: the upstream's commands: %w", err)
	}
	l.Use(table)
	l.command = command // not before: a table that could not be made is tried again
	return nil
}

// Keep learns again and again, until ctx ends. It calls each before. It blocks, on a goroutine of its own. An
// error is logged, and the present table stays.
func (l *Learner) Keep(ctx context.Context, each func()) {
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		each()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := l.Learn(ctx); err != nil && ctx.Err() == nil {
			l.Log.Warn("the upstream's commands could not be learned anew", "err", err)
		}
	}
}
