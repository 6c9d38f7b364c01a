package proxy

import (
	"strings"

	"lockproxy/cluster"
)

// This file is for whom connections of one's own are counted: it implements cluster.Counted.

// Party is the client as one with all others of its address and user.
func (s *session) Party() cluster.Party {
	host := s.Addr
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	user := s.User
	if user == "" {
		user = "default"
	}
	return cluster.Party{Host: host, User: user}
}

// Party implements cluster.Counted.
func (b *block) Party() cluster.Party { return b.s.Party() }

// Party implements cluster.Counted.
func (p *waitPart) Party() cluster.Party { return p.w.s.Party() }

// Party implements cluster.Counted.
func (l *lane) Party() cluster.Party { return l.t.s.Party() }

// Party implements cluster.Counted.
func (a *apart) Party() cluster.Party { return a.s.Party() }
