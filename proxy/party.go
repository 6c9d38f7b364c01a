package proxy

import (
	"strings"

	"lockproxy/cluster"
	"lockproxy/commands"
)

// This file is for whom connections of one's own are counted: it implements cluster.Counted.

// partyOf is a client as one with all others of its address and user.
func partyOf(c *commands.Client) cluster.Party {
	host := c.Addr
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	user := c.User
	if user == "" {
		user = "default"
	}
	return cluster.Party{Host: host, User: user}
}

// Party implements cluster.Counted.
func (b *block) Party() cluster.Party { return partyOf(b.h.about()) }

// Party implements cluster.Counted.
func (p *waitPart) Party() cluster.Party { return partyOf(p.w.h.about()) }

// Party implements cluster.Counted.
func (l *txConn) Party() cluster.Party { return partyOf(l.t.h.about()) }

// Party implements cluster.Counted.
func (a *apart) Party() cluster.Party { return partyOf(&a.s.Client) }

// Party implements cluster.Counted.
func (t *tracking) Party() cluster.Party { return partyOf(t.h.about()) }
