package cluster

import (
	"strings"
	"testing"

	"lockproxy/internal/resp"
)

// A connection is ended by its id and its address, so that another one is spared that has the same id after
// a restart; and only if it was lost with requests on their way.
func TestIdentity(t *testing.T) {
	const info = "id=7 addr=[::1]:50000 laddr=127.0.0.1:6379 fd=8 name=lockproxy user=default"
	for _, reply := range []resp.Value{{Kind: '$', Str: []byte(info + "\n")},
		{Kind: '=', Str: []byte("txt:" + info)}} {
		i := Identity{}
		i.takeIdentity(reply)
		if i.killCommand() != nil {
			t.Errorf("%c: nothing was on its way", reply.Kind)
		}
		i.Owed = true
		want := resp.AppendCommandStrings(nil, "CLIENT", "KILL", "ID", "7", "ADDR", "[::1]:50000")
		if got := i.killCommand(); string(got) != string(want) {
			t.Errorf("%c: %q", reply.Kind, got)
		}
	}
	unknown := Identity{Owed: true}
	unknown.takeIdentity(resp.Value{Kind: '-',
		Str: []byte("NOPERM this user has no permissions to run the 'client|info' command")})
	if unknown.killCommand() != nil || !strings.HasPrefix(unknown.refused, "NOPERM") {
		t.Errorf("%+v", unknown)
	}
}
