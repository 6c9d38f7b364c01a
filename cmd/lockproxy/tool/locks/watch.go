package locks

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/client"
	"lockproxy/cmd/lockproxy/tool/terminal"
)

// share is which part of the time, one of so many, the proxy lists locks for a watch. So a list that takes a
// second is asked for each five seconds at most, whatever --every says.
const share = 4

// followLocks is lockproxy locks --watch. It ends by a signal, which is what is expected, or when the first
// look fails.
func (a *locksFlags) followLocks(c *tool.Invocation, match string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second Ctrl-C ends the program at once
	v := newView(a, c)
	defer v.endView()
	for first := true; ; first = false {
		began := time.Now()
		all, err := a.listLocks(ctx, match)
		switch {
		case ctx.Err() != nil:
			return tool.ExitOK
		// later failures pass: a proxy that is restarted comes back
		case err != nil && (first || client.Code(err) == tool.ExitDenied):
			return a.failWith(c, err)
		case err != nil:
			err = v.showFailure(err)
		default:
			err = v.showLocks(all)
		}
		if err != nil {
			return c.Fail(tool.ExitSoftware, err)
		}
		select {
		case <-ctx.Done():
			return tool.ExitOK
		case <-time.After(max(a.every, share*time.Since(began))):
		}
	}
}

// watchView is where a watch is shown. showFailure shows why there is nothing new; what comes back is an
// error of writing. endView leaves the terminal as it was.
type watchView interface {
	showLocks(all []Lock) error
	showFailure(err error) error
	endView()
}

// newView is a screen at a terminal, and lines elsewhere, or with --json.
func newView(a *locksFlags, c *tool.Invocation) watchView {
	if terminal.Is(c.Stdout) && !a.json {
		return &screen{to: c.Stdout}
	}
	return &changes{to: c.Stdout, trouble: c.Stderr, json: a.json}
}

// screen shows the table over and over at the same place.
type screen struct {
	to    io.Writer
	drawn bool
	last  []Lock
}

// what VT100 and everything since takes; ?1049 is the other screen of xterm
const (
	clear = "\x1b[H\x1b[J"         // to the top, and nothing below
	enter = "\x1b[?1049h\x1b[?25l" // another screen, no cursor
	leave = "\x1b[?25h\x1b[?1049l"
)

func (s *screen) showLocks(all []Lock) error {
	s.last = all
	return s.drawScreen(fmt.Sprintf("%s  locks: %d  Ctrl-C ends", time.Now().Format(time.TimeOnly), len(all)))
}

func (s *screen) showFailure(err error) error {
	return s.drawScreen(time.Now().Format(time.TimeOnly) + "  these are old: " + terminal.Safe(err.Error()))
}

// drawScreen shows as much of the table as there is room for, below a line of news.
func (s *screen) drawScreen(news string) error {
	width, height := terminal.Size(s.to)
	// Four lines are the news, a blank one, the headings and the number of what is left out.
	shown := s.last[:min(len(s.last), max(height-4, 0))]
	text := clear + terminal.Cut(news, width) + "\n\n" + table(shown, width)
	if more := len(s.last) - len(shown); more > 0 {
		text += fmt.Sprintf("and %d more", more)
	}
	if !s.drawn {
		s.drawn = true
		text = enter + text
	}
	// one write, so that nothing half-drawn is seen
	_, err := io.WriteString(s.to, strings.ReplaceAll(text, "\n", "\r\n"))
	return err
}

// endView has the screen of before come back, and with it the cursor.
func (s *screen) endView() {
	if s.drawn {
		io.WriteString(s.to, leave)
	}
}

// changes writes a line for each lock that is new, another than before, or gone.
type changes struct {
	to, trouble io.Writer
	json        bool
	// by name; nil at first, so all locks are new
	before map[string]Lock
}

// changeLine is a line of JSON.
type changeLine struct {
	Time   time.Time `json:"time"`
	Change string    `json:"change"` // held, changed or gone
	Lock
}

func (w *changes) showLocks(all []Lock) (err error) {
	tell := func(what string, l Lock) {
		if err == nil {
			err = w.tellChange(what, l)
		}
	}
	now := make(map[string]Lock, len(all))
	for _, l := range all {
		now[l.Name] = l
		switch old, known := w.before[l.Name]; {
		case !known:
			tell("held", l)
		case old.differs(l):
			tell("changed", l)
		}
	}
	for name, l := range w.before {
		if _, still := now[name]; !still {
			tell("gone", Lock{Name: name, State: "free", Fence: l.Fence, Key: l.Key})
		}
	}
	w.before = now
	return err
}

// differs says that another client holds the lock, or that others wait.
func (l Lock) differs(o Lock) bool {
	same := func(a, b ShownHolder) bool {
		return a.Token == b.Token && a.Count == b.Count && a.Mode == b.Mode
	}
	return l.State != o.State || l.Fence != o.Fence || l.Waiters != o.Waiters || l.Used != o.Used ||
		!slices.EqualFunc(l.Holders, o.Holders, same)
}

// tellChange writes one line. Quotes in a value are escaped, so a line can be taken apart.
func (w *changes) tellChange(what string, l Lock) error {
	if w.json {
		return terminal.WriteJSON(w.to, changeLine{time.Now(), what, l}, "")
	}
	r := l.row()
	line := time.Now().Format(time.RFC3339) + " " + what
	for i, name := range []string{"name", "state", "holder", "since", "ttl", "waiters"} {
		line += fmt.Sprintf(` %s="%s"`, name, strings.ReplaceAll(r[i], `"`, `\"`))
	}
	_, err := fmt.Fprintln(w.to, line)
	return err
}

func (w *changes) showFailure(err error) error {
	_, wrong := fmt.Fprintf(w.trouble, "lockproxy locks: %s; trying again\n", terminal.Safe(err.Error()))
	return wrong
}

func (w *changes) endView() {}
