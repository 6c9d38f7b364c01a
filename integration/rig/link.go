package rig

import (
	"bufio"
	"bytes"
	"net"
	"sync"
	"time"
)

// Link is a TCP connection with faults, between lockproxy and one Redis:
//
//	lockproxy --> link --> redis-server
//
// It passes whole requests and replies on, so that it can lose exactly the one
// that a test means. All faults can be switched at any time, also for connections
// that live. Replication, which follows the addresses of a cluster and so comes
// through links as well, is passed on untouched once it has begun.
type Link struct {
	target string
	door   net.Listener
	tasks  sync.WaitGroup

	mu       sync.Mutex
	lines    map[*line]bool
	closed   bool
	pause    time.Duration // each way
	pace     time.Duration // between two replies of a connection
	refusing bool
	deaf     bool
	trap     []byte // the next requests that contain it are trapped,
	keeps    []int  // as many as these; each says what of the reply passes
	trapped  int
	watched  map[string]int // requests seen that contain the name
}

// line is one connection through a link.
type line struct {
	k            *Link
	client, node net.Conn
	done         chan struct{} // closed with the line

	mu       sync.Mutex
	ended    bool
	dead     bool // swallows what it is given, for ever
	raw      bool // replication: no requests and replies any more
	asked    int  // requests passed on
	answered int
	lost     bool // so is every further request; ends after the replies that are due
	doomed   int  // the number of the request whose reply is cut; 0: none
	keep     int  // so many bytes of it pass
}

// StartLink starts a link to the server at target, which need not be there yet.
func StartLink(l Life, target string) *Link {
	l.Helper()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.Fatalf("%v", err)
	}
	k := &Link{target: target, door: door, lines: map[*line]bool{}, watched: map[string]int{}}
	k.tasks.Go(k.accept)
	l.Cleanup(k.close)
	return k
}

// Addr is where clients of the link connect.
func (k *Link) Addr() string { return k.door.Addr().String() }

func (k *Link) port() int { return k.door.Addr().(*net.TCPAddr).Port }

// set changes what the link does.
func (k *Link) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// Delay makes every request and every reply from now on d late; their order stays.
func (k *Link) Delay(d time.Duration) { k.set(func() { k.pause = d }) }

// Pace lets only one reply of a connection pass every d, as behind a node that has so much to do for each. It
// is slow on any machine, and needs none of its processors.
func (k *Link) Pace(d time.Duration) { k.set(func() { k.pace = d }) }

// Refuse closes new connections at once, or no more; those that live go on.
func (k *Link) Refuse(on bool) { k.set(func() { k.refusing = on }) }

// HalfOpen swallows all bytes, and closes nothing. A connection that lost some in
// this way is never heard of again when HalfOpen has ended, as if a firewall had
// forgotten it; new ones work then.
func (k *Link) HalfOpen(on bool) { k.set(func() { k.deaf = on }) }

// Forget has all connections that live swallow what they are given from now on, for ever, as HalfOpen does;
// new ones work.
func (k *Link) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := range k.lines {
		n.mu.Lock()
		n.dead = true
		n.mu.Unlock()
	}
}

// Cut closes all connections, with what is on its way.
func (k *Link) Cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := range k.lines {
		n.end()
	}
}

// LostRequest as keep of CutReply: not even the request gets through.
const LostRequest = -1

// CutReply lets the next request that contains match through, and closes its connection
// when the reply to it has come, of which keep bytes at most, and never all, are
// passed on. Replies before it are. Further keeps do so with the requests after it.
func (k *Link) CutReply(match string, keeps ...int) {
	k.set(func() { k.trap, k.keeps = []byte(match), keeps })
}

// Disarm takes CutReply back where it has not met its requests yet.
func (k *Link) Disarm() { k.set(func() { k.keeps = nil }) }

// Cuts is how many requests CutReply has met so far.
func (k *Link) Cuts() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.trapped
}

// watch counts the requests with match that reach the server from now on.
func (k *Link) watch(match string) { k.set(func() { k.watched[match] = 0 }) }

// saw is the count of watch.
func (k *Link) saw(match string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.watched[match]
}

// open is how many connections there are.
func (k *Link) open() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.lines)
}

// close ends the link and waits for its goroutines.
func (k *Link) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.door.Close()
	k.Cut()
	k.tasks.Wait()
}

func (k *Link) accept() {
	for {
		c, err := k.door.Accept()
		if err != nil {
			return
		}
		n := &line{k: k, client: c, done: make(chan struct{})}
		k.mu.Lock()
		if k.closed || k.refusing {
			k.mu.Unlock()
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
			continue
		}
		n.dead = k.deaf
		k.lines[n] = true
		k.tasks.Go(n.run)
		k.mu.Unlock()
	}
}

// run passes both ways until the line ends.
func (n *line) run() {
	defer func() {
		n.end()
		n.k.mu.Lock()
		delete(n.k.lines, n)
		n.k.mu.Unlock()
	}()
	if n.dead {
		n.swallow(n.client)
		return
	}
	node, err := net.DialTimeout("tcp", n.k.target, Patience)
	if err != nil {
		return
	}
	n.mu.Lock()
	n.node = node
	ended := n.ended
	n.mu.Unlock()
	if ended {
		node.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { n.pass(n.client, node, n.request) })
	both.Go(func() { n.pass(node, n.client, n.reply) })
	both.Wait()
}

// end closes the line. May be called by anyone, and again.
func (n *line) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return
	}
	n.ended = true
	close(n.done)
	n.client.Close()
	if n.node != nil {
		n.node.Close()
	}
}

// parcel is what is on its way: at due it arrives, and last ends the line.
type parcel struct {
	due   time.Time
	bytes []byte
	last  bool
}

// pass reads from one side, has each request or reply judged, and carries it to the other
// side when its delay is over.
func (n *line) pass(from, to net.Conn, judge func(frame []byte) (pass []byte, last bool)) {
	way := make(chan parcel, 1024)
	var carrier sync.WaitGroup
	carrier.Go(func() { n.carry(way, to) })
	defer carrier.Wait()
	defer close(way)
	r := bufio.NewReaderSize(from, 1<<16)
	var last time.Time // when the parcel before is due
	for {
		frame, err := n.frame(r)
		pause, pace, dead := n.state()
		if dead {
			n.swallow(from)
			return
		}
		p := parcel{due: time.Now().Add(pause), last: err != nil}
		if next := last.Add(pace); from == n.node && p.due.Before(next) {
			p.due = next
		}
		last = p.due
		if err == nil {
			p.bytes, p.last = judge(frame)
		}
		select {
		case way <- p:
		case <-n.done:
			return
		}
		if p.last {
			return
		}
	}
}

// frame is the next request or reply, or any bytes of a replication.
func (n *line) frame(r *bufio.Reader) ([]byte, error) {
	n.mu.Lock()
	raw := n.raw
	n.mu.Unlock()
	if !raw {
		v, err := ReadReply(r)
		return v.Raw, err
	}
	b := make([]byte, 1<<16)
	m, err := r.Read(b)
	return b[:m], err
}

// state is how long things take now, and whether the line has died.
func (n *line) state() (pause, pace time.Duration, dead bool) {
	n.k.mu.Lock()
	pause, pace, deaf := n.k.pause, n.k.pace, n.k.deaf
	n.k.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.raw {
		return 0, 0, false
	}
	n.dead = n.dead || deaf
	return pause, pace, n.dead
}

// carry writes what comes along way. It ends the line after the last parcel, unless
// the line is dead: then nobody is told.
func (n *line) carry(way <-chan parcel, to net.Conn) {
	for p := range way {
		if wait := time.Until(p.due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-n.done:
				continue
			}
		}
		if _, err := to.Write(p.bytes); err != nil || p.last {
			n.end()
		}
	}
}

// swallow reads until that side goes.
func (n *line) swallow(from net.Conn) {
	b := make([]byte, 1<<12)
	for {
		if _, err := from.Read(b); err != nil {
			return
		}
	}
}

var replicates = []byte("\r\nREPLCONF\r\n")

// request judges a request of the client.
func (n *line) request(frame []byte) (pass []byte, last bool) {
	k := n.k
	k.mu.Lock()
	met, keep := len(k.keeps) > 0 && bytes.Contains(frame, k.trap), 0
	if met {
		keep, k.keeps = k.keeps[0], k.keeps[1:]
		k.trapped++
	}
	lost := met && keep == LostRequest
	for match := range k.watched {
		if !lost && bytes.Contains(frame, []byte(match)) {
			k.watched[match]++
		}
	}
	k.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost = n.lost || lost; n.lost {
		return nil, n.answered == n.asked
	}
	n.asked++
	if met {
		n.doomed, n.keep = n.asked, keep
	}
	if bytes.Contains(frame, replicates) {
		n.raw = true
	}
	return frame, false
}

// reply judges a reply of the node.
func (n *line) reply(frame []byte) (pass []byte, last bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.raw || frame[0] == '>' {
		return frame, false
	}
	n.answered++
	if n.lost && n.answered == n.asked {
		return frame, true
	}
	if n.answered == n.doomed {
		return frame[:min(n.keep, len(frame)-1)], true
	}
	return frame, false
}
