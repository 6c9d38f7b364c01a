package connection

import (
	"bytes"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// clientKill is CLIENT KILL addr, which may be the client's own, and CLIENT KILL with filters.
func clientKill(c *commands.Call) {
	f := filter{}
	if len(c.Args) == 3 {
		addr := string(c.Args[2])
		f.addCondition("ADDR", func(p *commands.Peer, _ time.Time) bool { return p.Addr == addr })
		f.killClients(c.Clients(), true)
		return
	}
	f.skip = c.Client.ID
	if refusal := f.parseFilters(dialectOf(c), c.Args[2:], c.Client.ID); refusal != nil {
		c.Reply(refusal)
		return
	}
	clients := c.Clients()
	f.checkUsers(c, func() { f.killClients(clients, false) })
}

// checkUsers goes on with then if the upstream has the users that the filter names, else it answers the
// command with the upstream's error. The check costs a round trip, so it is made only if there are users to
// ask about. then runs on the loop, at once or later. In both cases it answers the command.
func (f *filter) checkUsers(c *commands.Call, then func()) {
	// This does nothing, and needs no right that the command itself does not need.
	req := []string{"CLIENT", string(c.Args[1]), "ID", nobody}
	for _, user := range f.users {
		if user != commands.DefaultUser { // all have that one
			req = append(req, "USER", user)
		}
	}
	if len(req) == 4 {
		then()
		return
	}
	c.Ask(pipe.Target{}, resp.AppendCommandStrings(nil, req...), commands.Reread, func(reply []byte) []byte {
		if user, unknown := bytes.CutPrefix(reply, []byte("-ERR No such user '")); unknown {
			return resp.ErrorLine("ERR No such user '%s'", bytes.TrimSuffix(user, []byte("'\r\n")))
		}
		then()
		return nil
	})
}

// nobody is an id that no client has.
const nobody = "9223372036854775807"

// killClients closes the connections of the clients that match, and answers the command; old: in the form of
// CLIENT KILL addr. The client of the command itself may be among them: it is closed when it has its answer.
func (f *filter) killClients(clients commands.Clients, old bool) {
	// One time for all, so that the filter means the same on each loop.
	now := time.Now()
	clients.Each(f.ids, func(p *commands.Peer) []byte {
		if p.Close = f.selectsPeer(p, now); p.Close {
			return killedPeer
		}
		return nil
	}, func(killed []commands.SeenClient) []byte {
		switch {
		case !old:
			return redcon.AppendInt(nil, int64(len(killed)))
		case len(killed) == 0:
			return resp.ErrorLine("ERR No such client")
		}
		return resp.OK
	})
}

// killedPeer is what visit returns for a client that is closed.
var killedPeer = []byte("killed")
