package pipe

import (
	"time"

	"lockproxy/cluster"
)

// This file renews logins. The node may end connections that authenticated too long ago, so AUTH with a new
// password goes behind what was sent:
//
//	patrolShared, patrolOwn --> renewLogin --> AUTH --> +OK, which is not passed on
//
// The node does not read from a connection while a command blocks there, and between MULTI and EXEC it would
// queue AUTH. Such a connection takes over the new password afterwards.

// renewAgain is the pause before a node that has refused a login gets it again.
const renewAgain = 10 * time.Second

// renewLogin makes the connection take over a newer login, if there is one. Pointers are compared: a renewed
// login is another one.
func (p *Pipe) renewLogin() {
	now := p.control.Login()
	if now == p.as || p.conn == nil || p.stream != nil || p.loop.Now().Before(p.renewAt) {
		return
	}
	if p.Conn != nil {
		if _, blocks := p.Patience(0); blocks || p.Special() || p.Whole() {
			return
		}
	}
	before := p.as
	p.as = now
	if req := cluster.Renewal(before, now); req != nil {
		p.askNode(req, p.loggedIn)
	}
}

// loggedIn takes the answer to AUTH; nil if there is none. A refusal is logged once for all pipes of the
// loop, and tried again later, for the node may learn the password after the proxy.
func (p *Pipe) loggedIn(reply []byte, _ error) {
	if reply == nil || !isErrorReply(reply) {
		return
	}
	if p.refused != p.as {
		p.refused = p.as
		p.o.Log.Warn(cluster.NotRenewed, "node", p.addr,
			"err", cluster.Explain(cluster.Said(string(trimLine(reply[1:])))))
	}
	p.as, p.renewAt = nil, p.loop.Now().Add(renewAgain)
}
