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
	ID, Addr string // as the node has them; "": it does not tell
	Number   int64  // from CLIENT ID, which is asked for only on connections of a client's user; 0: none
	Owed     bool   // requests were on their way when the connection was lost
	refused  string // why the node would not say who it is, or not end the one before
}

// killCommand is the command that ends the connection; nil if its identity is not known. Without a request on
// its way there is nothing to prevent.
func (i *Identity) killCommand() []byte {
	if i.ID == "" || !i.Owed {
		return nil
	}
	return resp.AppendCommandStrings(nil, "CLIENT", "KILL", "ID", i.ID, "ADDR", i.Addr)
}

// askIdentity asks for the identity of a connection. Redis knows it since 6.2; an older one answers with an
// error, which takeIdentity keeps as the reason.
var askIdentity = resp.AppendCommandStrings(nil, "CLIENT", "INFO")

// takeIdentity takes the answer to askIdentity, or to killCommand if that is an error. It reads only what
// killCommand needs.
func (i *Identity) takeIdentity(v resp.Value) {
	if v.IsError() {
		i.refused = string(v.Str)
		return
	}
	fields := fieldsOf(string(v.Str))
	i.ID, i.Addr = fields["id"], fields["addr"]
}

// fieldsOf reads a line of CLIENT LIST, "id=7 addr=10.0.0.1:50000 ..." (Redis documentation). Where "txt:" is
// in front, the node speaks RESP3.
func fieldsOf(line string) map[string]string {
	fields := make(map[string]string)
	for field := range strings.FieldsSeq(strings.TrimPrefix(line, "txt:")) {
		name, value, _ := strings.Cut(field, "=")
		fields[name] = value
	}
	return fields
}
