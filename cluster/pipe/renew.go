package pipe

import (
	"time"

	"lockproxy/cluster"
)

// renewal is a Pipe as the Receiver of the answer to AUTH. The node may end connections that authenticated
// too long ago, so AUTH with a new password goes behind what was sent:
//
//	patrol --> renewal.look --> AUTH --> +OK, which is not passed on
//
// The node does not read from a connection while a command blocks there, and between MULTI and EXEC it would
// queue AUTH. Such a connection takes over the new password afterwards.
type renewal Pipe

// renewAgain is the pause before a node that has refused a login gets it again.
const renewAgain = 10 * time.Second

// look makes the connection take over a newer login, if there is one.
func (r *renewal) look() {
	p, now := (*Pipe)(r), r.pool.control.Login()
	if now == r.as || r.conn == nil || r.patient || r.mode.special() || r.whole() ||
		r.pool.loop.Now().Before(r.renewAt) {
		return
	}
	before := r.as
	r.as = now
	if req := cluster.Renewal(before, now); req != nil {
		p.append(&call{to: r, slot: thisNode, raw: true}, req)
	}
}

func (r *renewal) Receive(_ uint32, chunk []byte, _ bool) {
	if !isErrorReply(chunk) {
		return
	}
	if r.pool.refused != r.as {
		r.pool.refused = r.as
		r.pool.o.Log.Warn(cluster.NotRenewed, "node", r.addr,
			"err", cluster.Explain(cluster.Said(string(trimLine(chunk[1:])))))
	}
	r.as, r.renewAt = nil, r.pool.loop.Now().Add(renewAgain)
}

func (r *renewal) Fail(uint32, error)  {}
func (r *renewal) Discard(uint32) bool { return true }
func (r *renewal) Detour(uint32)       {}

// whole says that nothing may be sent between the requests of the owner.
func (r *renewal) whole() bool {
	if r.stream != nil {
		return true
	}
	owner := r.owner
	if r.private != nil {
		owner = r.private.owner
	}
	w, ok := owner.(Whole)
	return ok && w.Whole()
}
