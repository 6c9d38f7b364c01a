package pipe

import (
	"lockproxy/cluster"
)

// PrivateAs is Private for a client that is another user than the proxy: its connections authenticate as
// that. A request to a node that does not let it in fails with ErrMode, in the node's words.
func (p *Pool) PrivateAs(m Mode, owner PrivateOwner, user, password string) *Private {
	o := p.Private(m, owner)
	o.as = &cluster.Login{User: user, Password: password}
	o.setup.Requests = func(bool, int64) [][]byte { return nil }
	return o
}

// special says that connections of mode m belong to another user than the proxy.
func (m Mode) special() bool { return m.Own != nil && m.Own.as != nil }

// another is a connection to the node at addr for a client that has the one of its set in use already.
func (o *Private) another(addr string, owner Owner) *Pipe {
	if o.as == nil {
		return o.pool.Own(addr, Mode{Proto: o.mode.Proto, DB: o.mode.DB}, owner)
	}
	return o.pool.lend(addr, o.mode, owner)
}
