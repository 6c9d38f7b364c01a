package clients

import (
	"cmp"
	"slices"

	"lockproxy/commands"
	"lockproxy/proxy/client"
)

// Commands is the clients of all loops, for a command of one of them; it implements commands.Clients.
type Commands struct {
	Host     client.Host           // of that client
	On       *Loop                 // of that client
	Describe func() *commands.Peer // describes it while its command runs
}

// chunk is how many clients are visited before the loop serves others again.
const chunk = 256

// visits collects what a command asks about all clients. visit runs on all loops at the same time; everything
// else that changes belongs to the loop of h.
type visits struct {
	h       client.Host
	tag     uint32
	self    *commands.Peer // the asking client, as it was when it asked
	visit   func(p *commands.Peer) []byte
	then    func(seen []commands.SeenClient) []byte
	seen    []commands.SeenClient
	missing int  // loops that have not answered
	leave   bool // the asking client itself must be closed
}

// Self implements commands.Clients.
func (c Commands) Self() *commands.Peer { return c.Describe() }

// Connected implements commands.Clients.
func (c Commands) Connected(id int64) bool { return c.On.all.Find(id) != nil }

// Each implements commands.Clients. ids: only these clients, each once however often it is named; nil: all.
// The answer lists them by ID, whichever loop has answered first.
func (c Commands) Each(
	ids []int64,
	visit func(p *commands.Peer) []byte,
	then func(seen []commands.SeenClient) []byte,
) {
	c.Host.AnswerLater(client.ByProxy)
	c.Host.SetHold(client.HoldOrder)
	all := c.On.all
	whom := func(l *Loop) []Client { return slices.Collect(l.clients) }
	if ids != nil {
		byLoop := make(map[*Loop][]Client)
		known := make(map[int64]bool)
		for _, id := range ids {
			if found := all.Find(id); found != nil && !known[id] {
				known[id] = true
				l := all.loops[all.IndexOf(id)]
				byLoop[l] = append(byLoop[l], found)
			}
		}
		whom = func(l *Loop) []Client { return byLoop[l] }
	}
	g := &visits{h: c.Host, tag: c.Host.CurrentTag(), self: c.Describe(), visit: visit, then: then,
		missing: len(all.loops)}
	for _, l := range all.loops {
		if !l.Post(func() { g.visitSome(l, whom(l), nil) }) {
			g.addSeen(nil) // the loop has ended, and its clients with it
		}
	}
}

// visitSome visits the first clients, and posts the rest. It runs on the loop l. seen is what it has found so
// far, which only the loop l touches until it is handed to the loop of h.
func (g *visits) visitSome(l *Loop, all []Client, seen []commands.SeenClient) {
	n := min(len(all), chunk)
	var p commands.Peer
	for _, c := range all[:n] {
		if !c.Describe(&p) {
			continue
		}
		asks := p.ID == g.self.ID
		if asks {
			// Between two commands it would look idle; here it is seen with the command that asks.
			p = *g.self
		}
		if text := g.visit(&p); text != nil {
			seen = append(seen, commands.SeenClient{ID: p.ID, Text: text})
		}
		switch {
		case !p.Close:
		case asks:
			// CLIENT KILL of oneself: the answer comes first.
			g.leave = true
		default:
			c.Close()
		}
	}
	if rest := all[n:]; len(rest) > 0 {
		l.Post(func() { g.visitSome(l, rest, seen) }) // unless the loop has ended, and all clients with it
		return
	}
	g.h.Loop().Post(func() { g.addSeen(seen) })
}

// addSeen takes the result of one loop. The last one answers the command.
func (g *visits) addSeen(seen []commands.SeenClient) {
	g.seen = append(g.seen, seen...)
	if g.missing--; g.missing > 0 {
		return
	}
	slices.SortFunc(g.seen, func(a, b commands.SeenClient) int { return cmp.Compare(a.ID, b.ID) })
	if g.leave && !g.h.Gone() {
		g.h.Actions().Close()
	}
	g.h.Answer(g.tag, g.then(g.seen))
}
