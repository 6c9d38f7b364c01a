package faults

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// Many clients that do everything at once, each request with a value that names it: no reply is that of
// another request or another client, however often connections end, nodes stall and forget scripts, and
// clients leave in the middle. The proxy has the race detector.
func TestRepliesNameTheirRequests(t *testing.T) {
	for _, name := range []string{"single", "cluster"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &identityWorld{t: t, first: *seed}
			if w.first == 0 {
				w.first = uint64(time.Now().UnixNano())
			}
			fmt.Printf("%s: -seed %d\n", t.Name(), w.first)
			upstream := ""
			if name == "single" {
				s := rig.StartRedis(t)
				w.relay = rig.StartLink(t, s.Addr)
				w.nodes, upstream = []*rig.Server{s}, w.relay.Addr()
			} else {
				c := rig.StartCluster(t, 3, 0)
				w.nodes, upstream = c.Nodes, c.Addrs()
			}
			for _, n := range w.nodes {
				n.Do(t, "ACL", "SETUSER", "other", "on", ">pw", "~*", "&*", "+@all")
			}
			w.single = name == "single"
			w.proxy = rig.StartRaced(t, "--upstream", upstream, "--loops", "2")
			w.run(rig.Dose[int64](3000, 1_000_000))
		})
	}
}

// identityWorld is one proxy with all that happens to it.
type identityWorld struct {
	t      *testing.T
	first  uint64 // seed
	proxy  *rig.Proxy
	nodes  []*rig.Server
	relay  *rig.Link // between the proxy and the only node, or nil
	single bool

	over     atomic.Bool
	replies  atomic.Int64
	ends     atomic.Int64 // of connections
	troubles atomic.Int64 // that nodes had
	errors   atomic.Int64
}

func (w *identityWorld) dice(n int) *rand.Rand { return rand.New(rand.NewPCG(w.first, uint64(n))) }

// run goes on until there were so many replies, and a hundredth as many ends of connections and troubles.
func (w *identityWorld) run(replies int64) {
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() { w.client(n, w.dice(n)) })
	}
	all.Go(func() { w.publish() })
	all.Go(func() { w.troubleNodes(w.dice(1000)) })
	all.Go(func() { w.troubleClients(w.dice(1001)) })
	enough := func() bool {
		return w.replies.Load() >= replies && min(w.ends.Load(), w.troubles.Load()) >= replies/100
	}
	for !w.t.Failed() && !enough() {
		time.Sleep(20 * time.Millisecond)
	}
	w.over.Store(true)
	all.Wait()
	if w.relay != nil {
		w.relay.Disarm()
	}
	fmt.Printf("%s: %d replies, of them %d errors; %d connections ended\n", w.t.Name(), w.replies.Load(),
		w.errors.Load(), w.ends.Load())
}

// identityChannels is how many channels are published on all the time.
const identityChannels = 3

func identityChannel(n int) string { return fmt.Sprint("identity:channel:", n) }

// publish publishes on all channels; each message names its channel.
func (w *identityWorld) publish() {
	for !w.over.Load() {
		c, err := rig.Dial(w.proxy.Addr)
		if err != nil {
			continue
		}
		for err == nil && !w.over.Load() {
			for n := range identityChannels {
				if _, err = c.Do("PUBLISH", identityChannel(n), "to "+identityChannel(n)); err != nil {
					break
				}
			}
			time.Sleep(time.Millisecond)
		}
		c.Close()
	}
}

// troubleNodes does to the nodes what may happen to them.
func (w *identityWorld) troubleNodes(dice *rand.Rand) {
	for !w.over.Load() {
		time.Sleep(between(dice, 20*time.Millisecond, 300*time.Millisecond))
		w.troubles.Add(1)
		addr := w.nodes[dice.IntN(len(w.nodes))].Addr
		switch n := dice.IntN(6); {
		case w.relay != nil && n < 3:
			match := []string{"identity", "EVAL", "ECHO", "GET", "identity"}[dice.IntN(5)]
			w.relay.CutReply(match, dice.IntN(40))
		case n < 2:
			rig.Ask(addr, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		case n == 2:
			rig.Ask(addr, "DEBUG", "SLEEP", fmt.Sprintf("0.%02d", 1+dice.IntN(15)))
		case n == 3:
			rig.Ask(addr, "CLIENT", "PAUSE", fmt.Sprint(1+dice.IntN(100)),
				[]string{"ALL", "WRITE"}[dice.IntN(2)])
		default:
			rig.Ask(addr, "SCRIPT", "FLUSH")
		}
	}
}

// troubleClients does to the clients of the proxy what another client may do to them.
func (w *identityWorld) troubleClients(dice *rand.Rand) {
	for !w.over.Load() {
		time.Sleep(between(dice, 50*time.Millisecond, 500*time.Millisecond))
		switch dice.IntN(4) {
		case 0:
			rig.Ask(w.proxy.Addr, "CLIENT", "KILL", "ID", fmt.Sprint(1+dice.IntN(400)))
		case 1:
			rig.Ask(w.proxy.Addr, "CLIENT", "KILL", "TYPE", "pubsub")
		case 2:
			rig.Ask(w.proxy.Addr, "CLIENT", "PAUSE", fmt.Sprint(1+dice.IntN(60)),
				[]string{"ALL", "WRITE"}[dice.IntN(2)])
		default:
			if c, err := rig.Dial(w.proxy.Addr); err == nil {
				c.Send("MONITOR")
				c.Receive(100 * time.Millisecond) //house:brief an answer or none
				c.Close()
			}
		}
	}
}

// client is one client after the other, each over a connection of its own.
func (w *identityWorld) client(n int, dice *rand.Rand) {
	for life := 0; !w.over.Load() && !w.t.Failed(); life++ {
		c, err := rig.Dial(w.proxy.Addr)
		if err != nil {
			continue
		}
		p := &identityClient{w: w, Conn: c, dice: dice,
			name: fmt.Sprintf("identity:%d:%d", n, life), proto: 2}
		p.live()
		c.Close()
		w.ends.Add(1)
	}
}

// live sends pipelines and reads their replies until the connection ends.
func (p *identityClient) live() {
	for rounds := 1 + p.dice.IntN(60); rounds > 0 && !p.w.over.Load(); rounds-- {
		p.out, p.wants = nil, nil
		for range 1 + p.dice.IntN(8) {
			p.step()
		}
		if p.dice.IntN(40) == 0 { // it leaves with something on its way
			p.Write(p.out[:p.dice.IntN(1+len(p.out))]) // all or none of it, too
			if p.dice.IntN(2) == 0 {
				p.Conn.Conn.(*net.TCPConn).SetLinger(0)
			}
			return
		}
		sent := make(chan struct{})
		go func() { p.write(); close(sent) }() // ends when the pipeline is sent or the connection closed
		if !p.read() {
			p.Close()
			<-sent
			return
		}
		<-sent
	}
}

// write sends the pipeline at once, in two halves, or dripped.
func (p *identityClient) write() {
	piece := len(p.out)
	switch p.drips {
	case 0:
		piece = 1 + piece/2
	case 1:
		piece = max(1, min(7, piece), piece/50)
	}
	for rest := p.out; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
		if _, err := p.Write(rest[:min(piece, len(rest))]); err != nil {
			return
		}
		if piece < len(p.out) {
			time.Sleep(100 * time.Microsecond)
		}
	}
}

// read reads the replies that are due. It reports false when the connection has ended.
func (p *identityClient) read() bool {
	for _, want := range p.wants {
		v, err := p.next(want)
		switch {
		case isTimeoutError(err):
			p.w.t.Errorf("%s: no answer to %s", p.name, want.what)
			return false
		case err != nil:
			return false
		}
		p.w.replies.Add(1)
		failed := v.IsError()
		switch {
		case failed && want.mayFail && !v.IsError("MOVED") && !v.IsError("ASK"):
			p.w.errors.Add(1)
		case failed || !want.ok(v):
			p.w.t.Errorf("%s (RESP%d): %s was answered %.200s; -seed %d", p.name, p.proto,
				want.what, v, p.w.first)
			return false
		}
	}
	return true
}

// next is the next reply that is no message.
func (p *identityClient) next(want identityWant) (rig.Reply, error) {
	for {
		v, err := p.Receive(2 * rig.Patience)
		if err != nil {
			return v, err
		}
		isMessage := len(v.Elems) == 3 && v.Elems[0].Text == "message"
		switch {
		case isMessage && (v.Kind == '>' || v.Kind == '*' && want.hears):
			if channel := v.Elems[1].Text; v.Elems[2].Text != "to "+channel ||
				!strings.HasPrefix(channel, "identity:channel:") {
				p.w.t.Errorf("%s: a message that nobody sent: %s", p.name, v)
			}
		case v.Kind == '>' && !want.confirms: // invalidate, lock-lost
		default:
			return v, nil
		}
	}
}

func isTimeoutError(err error) bool { return err != nil && rig.IsTimeout(err) }
