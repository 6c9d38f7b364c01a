package cluster

import (
	"strings"

	"lockproxy/internal/resp"
)

// Identity identifies one connection at its node: it has what CLIENT KILL needs to end that one and no
// other. The address belongs to it because a node counts ids from 1 again when it restarts.
//
// A request that was lost with its connection may still lie in a network or a socket between here and the
// node. Before it is sent again over the next connection, that connection ends the one before it: from then
// on the first copy has run or never will.
type Identity struct {
	id, addr string
	Number   int64  // from CLIENT ID, which is asked for only on connections of a client's user; 0: none
	Owed     bool   // requests were on their way when the connection was lost
	refused  string // why the node would not say who it is, or not end the one before
}

// ID is what the node calls the connection, and Addr where it sees it; "" if it does not tell.
func (i *Identity) ID() string   { return i.id }
func (i *Identity) Addr() string { return i.addr }

// kill is the command that ends the connection; nil if its identity is not known.
func (i *Identity) kill() []byte {
	if i.id == "" || !i.Owed {
		return nil
	}
	return resp.AppendCommandStrings(nil, "CLIENT", "KILL", "ID", i.id, "ADDR", i.addr)
}

// askIdentity asks for the identity of a connection. Redis knows it since 6.2.
var askIdentity = resp.AppendCommandStrings(nil, "CLIENT", "INFO")

// named takes the answer to askIdentity, or to kill if that is an error.
func (i *Identity) named(v resp.Value) {
	if v.IsError() {
		i.refused = string(v.Str)
		return
	}
	for field := range strings.FieldsSeq(strings.TrimPrefix(string(v.Str), "txt:")) {
		if id, ok := strings.CutPrefix(field, "id="); ok {
			i.id = id
		}
		if addr, ok := strings.CutPrefix(field, "addr="); ok {
			i.addr = addr
		}
	}
}
