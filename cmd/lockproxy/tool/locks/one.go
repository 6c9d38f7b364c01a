package locks

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/terminal"
)

// inspectLock asks for one lock.
func (a *locksFlags) inspectLock(name string) (Lock, error) {
	reply, err := a.askProxy(context.Background(), a.at.Timeout, "LOCKCTL", "INFO", name)
	l := readLock(reply)
	l.Name = name
	return l, err
}

// isFree says that nobody holds the lock or waits for it.
func (l *Lock) isFree() bool { return l.State == "free" && l.Waiters == 0 }

// showInfo is lockproxy locks info NAME.
func (a *locksFlags) showInfo(c *tool.Invocation, name string) int {
	l, err := a.inspectLock(name)
	if err != nil {
		return a.failWith(c, err)
	}
	if a.json {
		err = terminal.WriteJSON(c.Stdout, l, "  ")
	} else {
		_, err = io.WriteString(c.Stdout, l.told())
	}
	switch {
	case err != nil:
		return c.Fail(tool.ExitSoftware, err)
	// the exit code answers what a script wants to know
	case l.isFree():
		return tool.ExitNo
	}
	return tool.ExitOK
}

// told is all that is known of the lock, for people.
func (l *Lock) told() string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-8s %s\n", name, terminal.Safe(value)) }
	line("name", l.Name)
	fmt.Fprintf(&b, "%-8s %s\n", "state", l.state())
	line("fence", fmt.Sprint(l.Fence))
	line("key", l.Key)
	line("holders", fmt.Sprint(len(l.Holders)))
	for _, h := range l.Holders {
		more := ""
		if h.Count > 1 {
			more += fmt.Sprintf(", taken %d times", h.Count)
		}
		if h.Kept != 0 {
			more += ", kept alive"
		}
		fmt.Fprintf(&b, "  %s since %s, ttl %s, fence %d%s: %s, token %s\n", terminal.Safe(h.Mode),
			time.UnixMilli(h.Since).Format(time.DateTime), brief(h.TTL), h.Fence, more,
			h.ShownClient.told(), terminal.Safe(h.Token))
		if h.Meta != "" {
			fmt.Fprintf(&b, "    meta %s\n", terminal.Safe(h.Meta))
		}
	}
	line("waiters", fmt.Sprint(l.Waiters))
	for _, w := range l.Waiting {
		fmt.Fprintf(&b, "  %s for %s: %s\n", terminal.Safe(w.Mode), brief(w.Waited), w.ShownClient.told())
	}
	return b.String()
}

// told is who it is.
func (p *ShownClient) told() string {
	if p.Addr == "" && p.Client == "" {
		return "client not known"
	}
	all := strings.TrimSpace("client " + p.Client)
	for _, part := range [][2]string{{"at", p.Addr}, {"user", p.User}, {"proxy", p.Proxy}} {
		if part[1] != "" {
			all += " " + part[0] + " " + part[1]
		}
	}
	return terminal.Safe(all)
}

// breakLock is lockproxy locks break NAME.
func (a *locksFlags) breakLock(c *tool.Invocation, name string) int {
	if !a.yes {
		// A script would break a lock, or hang, by a question that it does not see. Anything but a terminal
		// would answer it by chance.
		if !terminal.Is(c.Stdin) {
			return c.Misused(errors.New("nobody can be asked here: --yes breaks the lock without a question"))
		}
		l, err := a.inspectLock(name)
		switch {
		case err != nil:
			return a.failWith(c, err)
		// nothing to break, and nothing to ask
		case l.State == "free":
			return c.Fail(tool.ExitNo, fmt.Errorf("%s is free", terminal.Safe(name)))
		}
		// Standard error: standard output has the result alone.
		fmt.Fprintf(c.Stderr, "%sIts holders will hold nothing, and whoever waits is next. Break it? "+
			"[y/N] ", l.told())
		if !agreed(c.Stdin) {
			fmt.Fprintln(c.Stderr, "not broken")
			return tool.ExitNo
		}
	}
	answer, err := a.askProxy(context.Background(), a.at.Timeout, "LOCKCTL", "BREAK", name)
	broken := answer == int64(1)
	switch {
	case err != nil:
		return a.failWith(c, err)
	case a.json:
		if err := terminal.WriteJSON(c.Stdout, map[string]any{"name": name, "broken": broken},
			""); err != nil {
			return c.Fail(tool.ExitSoftware, err)
		}
	case broken:
		fmt.Fprintf(c.Stdout, "%s is broken\n", terminal.Safe(name))
	default:
		fmt.Fprintf(c.Stdout, "%s is free\n", terminal.Safe(name))
	}
	if !broken {
		return tool.ExitNo
	}
	return tool.ExitOK
}

// agreed reads a line that says yes.
func agreed(r io.Reader) bool {
	line, _ := bufio.NewReader(io.LimitReader(r, 100)).ReadString('\n')
	line = strings.ToLower(strings.TrimSpace(line))
	return line == "y" || line == "yes"
}
