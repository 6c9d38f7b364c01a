// Package auditlog writes the audit log.
package auditlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"lockproxy/internal/journal"
	"lockproxy/internal/lockevent"
)

// Log writes the audit log: an event a line, as JSON. Safe for concurrent use.
//
//	Note --> lockevent.Stream --> lines --> the file
//
// Nobody waits for the file: what cannot be written is counted, and both logs tell of it. A Log of Start has
// a goroutine until Close.
type Log struct {
	out   io.Writer
	log   *slog.Logger // of the program
	names journal.NameStyle
	json  *slog.Logger // to lines
	// it belongs to that goroutine
	lines bytes.Buffer // of the events that are being told

	*lockevent.Stream
	end  context.CancelFunc
	over chan struct{} // closed when all is written that will be

	logins journal.Few
	untold atomic.Int64 // lost ones of which the log of the program is to tell
}

const (
	// tellEvery is how long losses are counted before the log tells of them.
	tellEvery = time.Second
	// closeLimit is how long close waits.
	closeLimit = 500 * time.Millisecond
)

// Start starts the audit log at a path, or stderr; nil: there is none.
func Start(at string, stderr io.Writer, log *slog.Logger, names journal.NameStyle) (*Log, error) {
	var out io.Writer
	switch at {
	case "":
		return nil, nil
	case "-", "stderr":
		out = stderr
	default:
		f := &logFile{path: at, log: log}
		if err := f.openFile(); err != nil {
			return nil, fmt.Errorf("audit-log: %w", err)
		}
		out = f
	}
	return newLog(out, log, names), nil
}

func newLog(out io.Writer, log *slog.Logger, names journal.NameStyle) *Log {
	a := &Log{out: out, log: log, names: names, Stream: lockevent.NewStream(), over: make(chan struct{})}
	a.json = slog.New(slog.NewJSONHandler(&a.lines, &slog.HandlerOptions{ReplaceAttr: asEvent}))
	// Pause stays 0: an event is written as soon as the one before is.
	a.Tell, a.Lost = a.writeLines, a.countLost
	ctx, end := context.WithCancel(context.Background())
	a.end = end
	go func() { // ends in Close
		defer close(a.over)
		a.Run(ctx)
	}()
	return a
}

// asEvent makes a line of the log tell of an event. It leaves out the level, which events do not have,
// and what is empty or 0: a line has only what applies.
func asEvent(_ []string, at slog.Attr) slog.Attr {
	switch v := at.Value; {
	case at.Key == slog.LevelKey, v.Equal(slog.StringValue("")), v.Equal(slog.Int64Value(0)),
		v.Equal(slog.Uint64Value(0)):
		return slog.Attr{}
	case at.Key == slog.MessageKey:
		at.Key = "event"
	}
	return at
}

// Note implements proxy.Audit. Waits are not written. Who guesses passwords cannot fill the disk: of many
// failed logins some are written, and then the number of the others.
func (a *Log) Note(e lockevent.Event) {
	switch e.Kind {
	// They change nothing about who holds a lock, and there may be very many.
	case lockevent.Waiting, lockevent.TimedOut:
		return
	case lockevent.LoginFailed:
		rest := func(n int) {
			a.Stream.Note(lockevent.Event{Time: time.Now(), Kind: e.Kind, Proxy: e.Proxy, Count: uint64(n)})
		}
		if !a.logins.Pass(rest) {
			return
		}
	}
	a.Stream.Note(e)
}

// countLost has the log of the program tell of events that are not written.
func (a *Log) countLost(n int) {
	more := int64(n)
	// The first loss after a report has the next report made, so there is one line a second at most.
	if a.untold.Add(more) == more {
		time.AfterFunc(tellEvery, func() {
			a.log.Error("audit log: events could not be written", "count", a.untold.Swap(0))
		})
	}
}

// writeLines writes a line for each event, and says for how many.
func (a *Log) writeLines(_ context.Context, all []lockevent.Event) int {
	a.lines.Reset()
	for i := range all {
		a.appendLine(&all[i])
	}
	lines := a.lines.Bytes()
	n, err := a.out.Write(lines)
	if err != nil {
		// an event of which a part was written is lost: its line is torn
		return bytes.Count(lines[:n], []byte("\n"))
	}
	return len(all)
}

// appendLine appends a line of JSON to lines. Names of locks are shown as the program's log shows them.
func (a *Log) appendLine(e *lockevent.Event) {
	var all []any
	if e.Lock != "" {
		all = a.names.Lock(all, e.Lock)
	}
	all = append(all, "mode", e.Mode, "token", e.Token, "fence", e.Fence, "client", e.Client.Addr,
		"name", e.Client.Name, "user", e.Client.User, "setting", e.Setting, "value", e.Value,
		"reason", e.Reason, "count", e.Count, "proxy", e.Proxy)
	// Past the Logger, whose records have the time of the call and not that of the event.
	r := slog.NewRecord(e.Time, slog.LevelInfo, string(e.Kind), 0)
	r.Add(all...)
	a.json.Handler().Handle(context.Background(), r)
}

// Close ends it, and waits half a second at most until all is written. Nil is none.
func (a *Log) Close() {
	if a == nil {
		return
	}
	a.end()
	select {
	case <-a.over:
	// A disk that hangs must not keep the process from its end.
	case <-time.After(closeLimit):
		a.log.Error("audit log: the end could not be written", "count", a.Waiting())
	}
}

// logFile is a file that lines are appended to. When another program has moved it away, as log rotation does,
// it is made anew. It belongs to the goroutine of its Log.
type logFile struct {
	path   string
	log    *slog.Logger
	f      *os.File
	looked time.Time     // when the file was last looked for
	torn   bool          // its last line is not whole
	failed journal.Lines // attempts to open it
}

// LookEvery is how often a file looks whether it is still in its place.
const LookEvery = time.Second

// Check says why the file of the audit log could not be opened, as far as that shows without making
// it.
func Check(path string) error {
	if path == "" || path == "-" || path == "stderr" {
		return nil
	}
	at, err := os.Stat(path)
	switch {
	// it will be made, if its folder is there
	case errors.Is(err, fs.ErrNotExist):
		_, err = os.Stat(filepath.Dir(path))
	case err == nil && at.IsDir():
		err = &fs.PathError{Err: syscall.EISDIR}
	// Opening anything else, a named pipe for instance, could block until somebody reads.
	case err == nil && at.Mode().IsRegular():
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			f.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("audit-log %s: %w", path, errors.Unwrap(err))
	}
	return nil
}

// openFile opens the file, and closes the one that was open before.
func (a *logFile) openFile() error {
	// O_APPEND: several proxies may write one file. 0600: it names clients, users and locks.
	f, err := os.OpenFile(a.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if a.f != nil {
		a.f.Close()
	}
	a.f, a.torn = f, false
	return nil
}

// Write implements io.Writer. It is called with whole lines.
func (a *logFile) Write(lines []byte) (n int, err error) {
	if now := time.Now(); now.Sub(a.looked) >= LookEvery {
		a.looked = now
		a.followPath()
	}
	// What a full disk has cut is ended first, so the next event has a line of its own.
	if a.torn {
		if _, err := a.f.WriteString("\n"); err != nil {
			return 0, err
		}
		a.torn = false
	}
	n, err = a.f.Write(lines)
	a.torn = n > 0 && lines[n-1] != '\n'
	return n, err
}

// followPath opens the file again if it was moved away or removed. The one that is open is better than none.
func (a *logFile) followPath() {
	was, err := a.f.Stat()
	if is, gone := os.Stat(a.path); err == nil && gone == nil && os.SameFile(was, is) {
		return
	}
	if err := a.openFile(); err != nil {
		a.failed.Write(a.log, slog.LevelError, "audit log: cannot be opened again", "err", err)
	}
}
