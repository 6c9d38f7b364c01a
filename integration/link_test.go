package integration

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// link is a TCP connection with faults, between lockproxy and one Redis:
//
//	lockproxy --> link --> redis-server
//
// It passes whole requests and replies on, so that it can lose exactly the one
// that a test means. All faults can be switched at any time, also for connections
// that live. Replication, which follows the addresses of a cluster and so comes
// through links as well, is passed on untouched once it has begun.
type link struct {
	target string
	door   net.Listener
	tasks  sync.WaitGroup

	mu       sync.Mutex
	lines    map[*line]bool
	closed   bool
	pause    time.Duration // each way
	refusing bool
	deaf     bool
	trap     []byte // the next requests that contain it are trapped,
	keeps    []int  // as many as these; each says what of the reply passes
	trapped  int
	watched  map[string]int // requests seen that contain the name
}

// line is one connection through a link.
type line struct {
	k            *link
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

// startLink starts a link to the server at target, which need not be there yet.
func startLink(l life, target string) *link {
	l.Helper()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.Fatalf("%v", err)
	}
	k := &link{target: target, door: door, lines: map[*line]bool{}, watched: map[string]int{}}
	k.tasks.Go(k.accept)
	l.Cleanup(k.close)
	return k
}

// addr is where clients of the link connect.
func (k *link) addr() string { return k.door.Addr().String() }

func (k *link) port() int { return k.door.Addr().(*net.TCPAddr).Port }

// delay makes every request and every reply from now on d late; their order stays.
func (k *link) delay(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pause = d
}

// refuse closes new connections at once, or no more; those that live go on.
func (k *link) refuse(on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refusing = on
}

// halfOpen swallows all bytes, and closes nothing. A connection that lost some in
// this way is never heard of again when halfOpen has ended, as if a firewall had
// forgotten it; new ones work then.
func (k *link) halfOpen(on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deaf = on
}

// cut closes all connections, with what is on its way.
func (k *link) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := range k.lines {
		n.end()
	}
}

// lostRequest as keep of cutReply: not even the request gets through.
const lostRequest = -1

// cutReply lets the next request that contains match through, and closes its connection
// when the reply to it has come, of which keep bytes at most, and never all, are
// passed on. Replies before it are. Further keeps do so with the requests after it.
func (k *link) cutReply(match string, keeps ...int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trap, k.keeps = []byte(match), keeps
}

// disarm takes cutReply back where it has not met its requests yet.
func (k *link) disarm() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keeps = nil
}

// cuts is how many requests cutReply has met so far.
func (k *link) cuts() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.trapped
}

// watch counts the requests with match that reach the server from now on.
func (k *link) watch(match string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watched[match] = 0
}

// saw is the count of watch.
func (k *link) saw(match string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.watched[match]
}

// open is how many connections there are.
func (k *link) open() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.lines)
}

// close ends the link and waits for its goroutines.
func (k *link) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.door.Close()
	k.cut()
	k.tasks.Wait()
}

func (k *link) accept() {
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
	node, err := net.DialTimeout("tcp", n.k.target, patience)
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
	for {
		frame, err := n.frame(r)
		pause, dead := n.state()
		if dead {
			n.swallow(from)
			return
		}
		p := parcel{due: time.Now().Add(pause), last: err != nil}
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
		v, err := readReply(r)
		return v.raw, err
	}
	b := make([]byte, 1<<16)
	m, err := r.Read(b)
	return b[:m], err
}

// state is how long things take now, and whether the line has died.
func (n *line) state() (pause time.Duration, dead bool) {
	n.k.mu.Lock()
	pause, deaf := n.k.pause, n.k.deaf
	n.k.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.raw {
		return 0, false
	}
	n.dead = n.dead || deaf
	return pause, n.dead
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
	lost := met && keep == lostRequest
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

// A link passes what comes, and does each of its faults.
func TestLink(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	k := startLink(t, s.addr)
	c := connect(t, k.addr())
	c.want(t, "OK", "SET", "k", "a\r\nb")
	c.want(t, `"a\r\nb"`, "GET", "k")

	k.delay(50 * time.Millisecond)
	start := time.Now()
	c.send("INCR", "n")
	c.send("INCR", "n")
	for want := range 2 {
		if v, err := c.receive(patience); err != nil || v.int() != int64(want+1) {
			t.Errorf("INCR over a slow link: %s %v", v, err)
		}
	}
	if took := time.Since(start); took < 100*time.Millisecond {
		t.Errorf("twice 50 ms, and the reply came after %v", took)
	}
	k.delay(0)

	other := connect(t, k.addr())
	other.want(t, "PONG", "PING")
	k.watch("cut-me")
	for keep, got := range map[int]string{0: "", 3: ":1", lostRequest: ""} {
		k.cutReply("cut-me", keep)
		for _, args := range [][]string{{"GET", "n"}, {"SETNX", "cut-me", "1"}, {"GET", "n"}} {
			c.send(args...)
		}
		if v, err := c.receive(patience); err != nil || v.text != "2" {
			t.Errorf("keep %d: the reply before the one to cut: %s %v", keep, v, err)
		}
		if v, err := c.receive(patience); err == nil {
			t.Errorf("keep %d: a reply came: %s", keep, v)
		} else if len(v.raw) != max(keep, 0) || len(got) > len(v.raw) {
			t.Errorf("keep %d: %q came of the reply", keep, v.raw)
		}
		c = connect(t, k.addr())
		want := "(integer) 1"
		if keep == lostRequest {
			want = "(integer) 0"
		}
		c.want(t, want, "DEL", "cut-me")
	}
	if k.cuts() != 3 {
		t.Errorf("%d cuts", k.cuts())
	}
	if n := k.saw("cut-me"); n != 2+3 { // and three DEL
		t.Errorf("%d requests with cut-me reached the server", n)
	}
	other.want(t, "PONG", "PING")

	k.refuse(true)
	if c, err := dial(k.addr()); err == nil && !c.closed(patience) {
		t.Error("a new connection lives although they are refused")
	}
	other.want(t, "PONG", "PING")
	k.refuse(false)

	k.halfOpen(true)
	fresh := connect(t, k.addr())
	for _, d := range []*conn{other, fresh} {
		d.send("INCR", "n")
		if !d.silent(100 * time.Millisecond) {
			t.Error("a half-open connection is not silent")
		}
	}
	k.halfOpen(false)
	for _, d := range []*conn{other, fresh} {
		d.send("INCR", "n")
		if !d.silent(100 * time.Millisecond) {
			t.Error("a connection that was half open is heard of again")
		}
	}
	c = connect(t, k.addr())
	c.want(t, `"2"`, "GET", "n")
	k.cut()
	if !c.closed(patience) || !other.closed(patience) {
		t.Error("connections live on after a cut")
	}
	eventually(t, patience, "no connection is left", func() bool { return k.open() == 0 })
}

// A cluster behind links names nothing but links: its proxy passes them, and so do
// redirects and fail-overs.
func TestLinkedCluster(t *testing.T) {
	t.Parallel()
	c := startLinkedCluster(t, 3, 1)
	p := startProxy(t, "--upstream", c.nodes[0].link.addr())
	client := connect(t, p.addr)
	m := c.masterOf(t, "foo")
	if m != c.nodes[2] {
		t.Fatalf("foo is on %s, not on the third master", m.addr)
	}
	if r := c.replicasOf(t, m); len(r) != 1 || r[0] != c.nodes[5] {
		t.Errorf("replicas of %s: %v", m.addr, r)
	}
	for _, n := range c.nodes[:3] {
		n.link.watch("through")
	}
	for i := range 30 {
		client.want(t, "OK", "SET", fmt.Sprint("through:", i), "1")
	}
	sum := 0
	for _, n := range c.nodes[:3] {
		sum += n.link.saw("through")
	}
	if sum != 30 {
		t.Errorf("%d of 30 SETs came through links", sum)
	}
	client.want(t, "OK", "SET", "foo", "1")
	c.migrate(t, c.slotOf(t, "foo"), m, c.nodes[0], time.Millisecond)
	c.nodes[0].link.watch("foo")
	client.want(t, `"1"`, "GET", "foo")
	if c.nodes[0].link.saw("foo") == 0 {
		t.Error("the redirect did not name the link")
	}
	c.nodes[3].do(t, "CLUSTER", "FAILOVER")
	eventually(t, patience, "the replica is master", func() bool {
		return c.nodes[3].info(t, "replication", "role") == "master"
	})
	c.nodes[3].link.watch("bar")
	client.want(t, "OK", "SET", "{foo}bar", "1")
	if c.nodes[3].link.saw("bar") == 0 {
		t.Error("after the fail-over the command did not come through the link of the new master")
	}
}
