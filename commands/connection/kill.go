package connection

import (
	"bytes"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// killFilter is what CLIENT KILL is given: a client goes that all of it fits.
type killFilter struct {
	addr, laddr string
	user        string
	id          int64
	kind        peerType
	age         time.Duration
	skip        int64 // client that stays; 0: none does
}

func (f *killFilter) fits(p *commands.Peer, now time.Time) bool {
	return (f.addr == "" || p.Addr == f.addr) &&
		(f.laddr == "" || p.LocalAddr == f.laddr) &&
		(f.user == "" || p.UserName() == f.user) &&
		(f.id == 0 || p.ID == f.id) &&
		(f.kind == anyType || kindOf(p) == f.kind) &&
		now.Sub(p.Created) >= f.age &&
		p.ID != f.skip
}

// clientKill is CLIENT KILL addr, which may be the client's own, and CLIENT KILL with filters.
func clientKill(c *commands.Call) {
	f := killFilter{}
	old := len(c.Args) == 3
	if old {
		f.addr = string(c.Args[2])
	} else {
		f.skip = c.Client.ID
		if refusal := f.parse(c.Args[2:], c.Client.ID); refusal != nil {
			c.Reply(refusal)
			return
		}
	}
	if f.user == "" || f.user == commands.DefaultUser {
		f.kill(c.Clients(), old)
		return
	}
	clients := c.Clients()
	req := resp.AppendCommandStrings(nil, "CLIENT", "KILL", "ID", nobody, "USER", f.user)
	c.Ask(pipe.Target{}, req, commands.Reread, func(reply []byte) []byte {
		if bytes.HasPrefix(reply, []byte("-ERR No such user")) {
			return resp.ErrorLine("ERR No such user '%s'", f.user)
		}
		f.kill(clients, false)
		return nil
	})
}

// nobody is an id that no client has.
const nobody = "9223372036854775807"

// kill closes the connections of the clients that fit, and answers the command, in its old form or not.
func (f *killFilter) kill(clients commands.Clients, old bool) {
	var ids []int64
	if f.id != 0 {
		ids = []int64{f.id}
	}
	now := time.Now()
	clients.Each(ids, func(p *commands.Peer) []byte {
		if p.Close = f.fits(p, now); p.Close {
			return killedPeer
		}
		return nil
	}, func(killed []commands.Seen) []byte {
		switch {
		case !old:
			return redcon.AppendInt(nil, int64(len(killed)))
		case len(killed) == 0:
			return resp.ErrorLine("ERR No such client")
		}
		return resp.OK
	})
}

// killedPeer is what is seen of a client that goes.
var killedPeer = []byte("killed")

// parse reads pairs of a filter and its value.
func (f *killFilter) parse(args [][]byte, self int64) (refusal []byte) {
	for ; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return resp.ErrSyntax
		}
		if refusal := f.set(strings.ToUpper(string(args[0])), args[1], self); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (f *killFilter) set(name string, value []byte, self int64) (refusal []byte) {
	switch name {
	case "ID":
		n, ok := resp.Integer(value)
		if !ok || n < 1 {
			return resp.ErrorLine("ERR client-id should be greater than 0")
		}
		f.id = n
	case "TYPE":
		f.kind, refusal = newPeerType(value)
	case "ADDR":
		f.addr = string(value)
	case "LADDR":
		f.laddr = string(value)
	case "USER":
		f.user = string(value)
	case "SKIPME":
		switch {
		case resp.IsWord(value, "YES"):
			f.skip = self
		case resp.IsWord(value, "NO"):
			f.skip = 0
		default:
			return resp.ErrSyntax
		}
	case "MAXAGE":
		n, ok := resp.Integer(value)
		switch {
		case !ok:
			return resp.ErrorLine("ERR maxage is not an integer or out of range")
		case n < 1:
			return resp.ErrorLine("ERR maxage should be greater than 0")
		}
		f.age = time.Duration(min(n, maxSeconds)) * time.Second
	default:
		return resp.ErrSyntax
	}
	return refusal
}

// maxSeconds is how many fit into a time.Duration.
const maxSeconds = int64(1<<63-1) / int64(time.Second)
