package proxy

import (
	"bytes"
	"log/slog"
	"strings"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/lockevent"
	"lockproxy/proxy/login"
)

// This file is what commands tell of that the log and the audit log have.

// maxShownUser is the length up to which the name of a user is logged.
const maxShownUser = 64

// LoginEnded implements commands.Server.
func (v whole) LoginEnded(c *commands.Client, user string, upstream bool, refusal []byte) {
	s := v.s
	attempts := s.shared.Attempts(c.ID)
	if attempts == nil {
		return
	}
	if refusal == nil {
		attempts.Reset()
		return
	}
	if !bytes.HasPrefix(refusal, []byte("-WRONGPASS")) &&
		!bytes.HasPrefix(refusal, []byte("-ERR invalid password")) {
		return // it tells nothing about the password
	}
	now := time.Now()
	attempts.Failed(now)
	s.shared.Login.Addresses.Failed(login.Origin(c.Addr), now)
	kind, reason := &s.shared.Login.Failures.Password, "password"
	if upstream {
		kind, reason = &s.shared.Login.Failures.User, "user"
	}
	s.events.audited(lockevent.Event{Kind: lockevent.LoginFailed, Reason: reason,
		Client: lockevent.Client{Addr: c.Addr, User: v.shownUser(user)}})
	kind.Note(s.o.Log, "authentication failed", "client", c.Addr, "user", v.shownUser(user))
}

// ConfigSet implements commands.Server.
func (v whole) ConfigSet(c *commands.Client, pairs [][2]string) {
	for _, p := range pairs {
		value := p[1]
		if commands.SecretSetting(p[0]) || len(value) > maxShownSetting {
			value = "(not shown)"
		}
		v.s.events.audited(lockevent.Event{Kind: lockevent.Setting,
			Setting: strings.ToLower(p[0]), Value: value,
			Client: lockevent.Client{Addr: c.Addr, Name: c.Name[:min(len(c.Name), maxShownUser)],
				User: v.shownUser(c.UserName())}})
		v.s.changes.Write(v.s.o.Log, slog.LevelInfo, "setting changed", "setting", strings.ToLower(p[0]),
			"value", value, "client", c.Addr, "user", v.shownUser(c.User))
	}
}

// maxShownSetting is the length up to which the value of a setting is logged.
const maxShownSetting = 200

// shownUser is the name of a user for the log. What cannot be a name, or is the password in its place, is not
// shown.
func (v whole) shownUser(user string) string {
	unfit := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if len(user) > maxShownUser || strings.ContainsFunc(user, unfit) ||
		v.CheckAuth([]byte("default"), []byte(user)) {
		return "(not shown)"
	}
	return user
}
