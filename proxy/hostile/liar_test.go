package hostile

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster/discovery"
	"lockproxy/cluster/pipe"
	"lockproxy/internal/resp"
	"lockproxy/internal/scripted"
	"lockproxy/internal/slot"
	"lockproxy/proxy"
)

// liar is a cluster of three nodes, found as any other, whose second node lies for a while. A value is the
// name of its key. It is dialled by name, so whatever else is dialled is a stranger.
type liar struct {
	nodes  []string                                // their addresses
	honest func(number int, words []string) string // what they say otherwise

	mu      sync.Mutex
	lie     func(words []string) string // nil: all are honest; "": this answer is honest
	lead    func(words []string) string // nil, or lies that bring about the question for lie
	dialled map[string]bool
	told    bool // lie was asked for, and answered
	taken   int  // the most bytes that were read of a reply without end
}

// cut behind a lie ends the connection, and drops has a byte of it come each second.
const (
	cut   = "\x00cut"
	drops = "\x00drops"
	// what is behind endless comes again and again
	endless = "\x00endless"
)

// liarsNumber is which of the nodes lies.
const liarsNumber = 1

func (l *liar) dial(_ context.Context, _, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dialled[addr] = true
	number := slices.Index(l.nodes, addr)
	if number < 0 {
		return nil, net.ErrClosed
	}
	here, there := net.Pipe()
	go func() { // ends with the connection
		defer there.Close()
		scripted.Each(there, func(words []string) bool {
			l.mu.Lock()
			lie, lead, reply := l.lie, l.lead, ""
			l.mu.Unlock()
			if number == liarsNumber && lie != nil {
				reply = lie(words)
			}
			switch {
			case reply != "":
				defer l.note()
			case number == liarsNumber && lead != nil:
				reply = lead(words)
			}
			if reply == "" {
				reply = l.honest(number, words)
			}
			text, ends := strings.CutSuffix(reply, cut)
			text, slowly := strings.CutSuffix(text, drops)
			text, again, more := strings.Cut(text, endless)
			for i := 0; slowly && i < len(text); i++ {
				time.Sleep(time.Second)
				if _, err := io.WriteString(there, text[i:i+1]); err != nil {
					return false
				}
			}
			if slowly {
				return true
			}
			if _, err := io.WriteString(there, text); err != nil || ends {
				return false
			}
			if more {
				l.pour(there, again)
			}
			return !more
		}, nil)
	}()
	return here, nil
}

// pour writes text to nc again and again, until nobody reads it any more.
func (l *liar) pour(nc net.Conn, text string) {
	piece := []byte(strings.Repeat(text, 32<<10/len(text)))
	n, err := 0, error(nil)
	for err == nil && n < 64<<20 {
		_, err = nc.Write(piece)
		n += len(piece)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken = max(l.taken, n)
}

// tell has the node lie from now on, or no longer. lead is what it says to be asked for the lie, or nil.
func (l *liar) tell(lie, lead func(words []string) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lie, l.lead, l.told = lie, lead, false
}

func (l *liar) note() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = true
}

// wait waits until the proxy has asked by itself for what is a lie, which it does within most, and a little
// longer.
func (l *liar) wait(most time.Duration) {
	for told := false; most > 0 && !told; most -= time.Second {
		l.mu.Lock()
		told = l.told
		l.mu.Unlock()
		time.Sleep(2 * time.Second)
	}
}

var addresses = []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"}

// rowOf is a line of CLUSTER SLOTS.
func rowOf(number, first, last int, host string, port int) string {
	return fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*3\r\n$%d\r\n%s\r\n:%d\r\n$3\r\nid%d\r\n", first, last, len(host),
		host, port, number)
}

// shareOf are the first and the last slot of a node.
func shareOf(number int) (first, last int) {
	return (number*slot.Count + 2) / 3, ((number+1)*slot.Count+2)/3 - 1
}

// slotsOf is CLUSTER SLOTS, with row in the place of that of the node that lies.
func slotsOf(row string) string {
	all := "*3\r\n"
	for i := range addresses {
		if i == liarsNumber && row != "" {
			all += row
			continue
		}
		first, last := shareOf(i)
		all += rowOf(i, first, last, fmt.Sprint("10.0.0.", i+1), 6379)
	}
	return all
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// honest is what a node says that does not lie.
func honest(number int, words []string) string {
	switch line := strings.ToUpper(strings.Join(words, " ")); {
	case strings.HasPrefix(line, "INFO"):
		return bulk(fmt.Sprintf("redis_version:7.0.15\r\nredis_mode:cluster\r\nrun_id:%d\r\n"+
			"role:master\r\nmaxmemory:0\r\n", number))
	case line == "COMMAND":
		reply, _ := commandReply()
		return string(reply)
	case strings.HasPrefix(line, "COMMAND INFO"):
		return "*1\r\n*1\r\n" + bulk("ssubscribe")
	case line == "CLUSTER SLOTS":
		return slotsOf("")
	case line == "CLUSTER INFO":
		return bulk("cluster_state:ok\r\ncluster_current_epoch:3\r\n")
	case line == "CLUSTER MYID":
		return bulk(fmt.Sprint("id", number))
	case line == "CLUSTER NODES":
		first, last := shareOf(number)
		return bulk(fmt.Sprintf("id%d %s@16379 myself,master - 0 0 %d connected %d-%d\n", number,
			addresses[number], number, first, last))
	case strings.HasPrefix(line, "SCAN"):
		return "*2\r\n" + bulk("0") + "*0\r\n"
	case strings.HasPrefix(line, "HELLO"):
		return "%0\r\n"
	case strings.HasPrefix(line, "GET "):
		return bulk(words[1])
	case strings.HasPrefix(line, "EVALSHA"):
		return string(grant)
	case line == "PING":
		return "+PONG\r\n"
	}
	return "+OK\r\n"
}

// stage is a proxy in front of a cluster with a liar, and clients that each have a key.
type stage struct {
	*testing.T
	*house
	*liar
	clients map[string]*client // by key
}

var keys = []string{"key0", "key1", "key2", "key3", "key4", "key5"}

// withLiar runs test in fake time, and ends all that it began, even if it fails: what is left in a bubble is
// a panic. In the end no stranger may have been dialled.
func withLiar(t *testing.T, test func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		l := &liar{nodes: addresses, honest: honest, dialled: make(map[string]bool)}
		s := &stage{t, &house{}, l, make(map[string]*client)}
		u, err := discovery.Find(t.Context(), discovery.Options{Addrs: addresses, Dial: s.dial})
		if err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(context.Background())
		go u.Run(running)
		o := proxy.Options{Upstream: u, Portable: true, Loops: 1, Config: noSettings{},
			Pipes: pipe.Options{Budget: time.Second, Timeout: time.Second}}
		if s.Server, err = proxy.New(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		defer func() {
			for _, c := range s.clients {
				c.end()
			}
			s.house.end()
			stop()
			synctest.Wait()
			if all := slices.Sorted(maps.Keys(s.dialled)); !slices.Equal(all, addresses) {
				t.Errorf("dialled: %v", all)
			}
		}()
		test(s)
	})
}

// round has each client say what asks for its key, one after the other, and wait until it is answered or
// closed.
func (s *stage) round(ask []string) {
	for _, key := range keys {
		c := s.clients[key]
		if c == nil || c.isClosed() {
			c = s.connect(nil, nil)
			s.clients[key] = c
		}
		c.got = nil
		var request []byte
		for _, line := range ask {
			words := strings.Fields(strings.ReplaceAll(line, "KEY", key))
			request = resp.AppendCommandStrings(request, words...)
		}
		c.say(request)
		for range 100 {
			synctest.Wait()
			all, whole, err := frames(c.got)
			if c.isClosed() || err != nil || whole && len(all) >= len(ask) {
				break
			}
			time.Sleep(time.Second)
		}
	}
}

var askPlainly = []string{"GET KEY"}

func (s *stage) served(key string) bool { return string(s.clients[key].got) == bulk(key) }

func atLiar(key string) bool { return slot.Of([]byte(key))*len(addresses)/slot.Count == liarsNumber }

// lied is what happens while a node lies: clients that ask the others are served as ever; those that ask the
// node itself get RESP, or the end of their connection; nobody gets what another asked for; and afterwards
// all is as before. A lie that nobody asks for shows nothing.
func (s *stage) lied(a *lies, reply string) {
	ask := a.ask
	s.tell(to(a.command, reply), a.lead)
	s.round(ask)
	if a.last > 0 {
		s.wait(a.last)
		s.round(ask)
	}
	if !s.told {
		s.Error("nobody has asked for the lie")
	}
	s.tell(nil, nil)
	for _, key := range keys {
		got, closed := s.clients[key].got, s.clients[key].isClosed()
		replies, whole, err := frames(got)
		switch {
		case len(ask) == 1 && ask[0] == askPlainly[0] && !atLiar(key) && !s.served(key):
			s.Errorf("%s is not at the node that lies, and got %q", key, got)
		case err != nil || !whole && !closed, !closed && len(replies) != len(ask):
			s.Errorf("%s got %q (%v), closed: %v", key, got, err, closed)
		}
		for _, reply := range replies {
			if bytes.HasPrefix(reply, []byte("-MOVED ")) || bytes.HasPrefix(reply, []byte("-ASK ")) {
				s.Errorf("%s is sent away: %.100q", key, reply)
			}
		}
		for _, other := range keys {
			if other != key && bytes.Contains(got, []byte(other)) {
				s.Errorf("%s got %q", key, got)
			}
		}
	}
	s.recovers()
}

// recovers waits until all is as before.
func (s *stage) recovers() {
	for range 60 {
		time.Sleep(time.Second)
		if s.round(askPlainly); !slices.ContainsFunc(keys, func(key string) bool { return !s.served(key) }) {
			return
		}
	}
	s.Errorf("after the lie %s got %q", keys[0], s.clients[keys[0]].got)
}

// to has a node answer each command that begins with those words with reply, in which KEY is the key that
// was asked for.
func to(command, reply string) func(words []string) string {
	return func(words []string) string {
		if !strings.HasPrefix(strings.ToUpper(strings.Join(words, " "))+" ", command+" ") {
			return ""
		}
		if len(words) > 1 {
			return strings.ReplaceAll(reply, "KEY", words[1])
		}
		return reply
	}
}

// lies are what a node answers to a command, while clients ask for something.
type lies struct {
	ask     []string
	command string
	replies []string
	last    time.Duration               // until the proxy has asked for sure; 0: clients do
	lead    func(words []string) string // nil, or other lies that have it ask
}

// shapes are replies of all kinds, and what is none.
var shapes = []string{
	":5\r\n", "+KEY\r\n", "$4\r\nKEY\r\n", "$3\r\nabc\r\n", "_\r\n", "*-1\r\n", "$-1\r\n", "*0\r\n",
	"%1\r\n+KEY\r\n:1\r\n", "~1\r\n:1\r\n", "=7\r\ntxt:abc\r\n", "!3\r\nabc\r\n",
	deep + "+KEY\r\n", "-ERR KEY\r\n",
	"|1\r\n+a\r\n:1\r\n+KEY\r\n", "-\r\n", "+\r\n", "hello\r\n", "*1\r\nx", ":\r\n", "$1\r\nabc\r\n",
	"-MOVED 9000 10.9.9.9:6379" + strings.Repeat("x", 1<<17) + "\r\n",
	"$9223372036854775807\r\n", "$1125899906842624\r\n", "$2147483647\r\n", "=2147483647\r\n",
	"*9223372036854775807\r\n", "%2147483647\r\n", strings.Repeat("*1\r\n", 100_000) + "+KEY\r\n",
	"*2\r\n$9223372036854775807\r\n", "+" + strings.Repeat("x", 1<<20) + "\r\n",
	"*3\r\n+KEY\r\n" + cut, "$100\r\nKEY" + cut, "*2\r\n" + deep, "$100\r\nKEY", "\x16\x03\x01" + cut, cut,
}

var deep = strings.Repeat("*1\r\n", 1000)

// errands are what only clients are told.
var errands = []string{
	">2\r\n+message\r\n+x\r\n+KEY\r\n", ">1\r\n", "$9223372036854775807\r\nKEY",
	"*9223372036854775807\r\n+KEY\r\n", "-MOVED 1 10.9.9.9:6379\r\n", "-MOVED 9000 10.9.9.9:6379\r\n",
	"-ASK 9000 10.9.9.9:6379\r\n", "-MOVED 9000 10.0.0.2:1\r\n", "-MOVED 9000 /tmp/socket:1\r\n",
	"-MOVED 9000 ?:6379\r\n", "-MOVED 9000 :7\r\n", "-MOVED 99999 10.0.0.1:6379\r\n", "-MOVED\r\n",
	"-MOVED x y\r\n", "-ASK 9000 :6379\r\n", "-MOVED 9000 10.0.0.2:6379\r\n", "-MOVED 9000 [::1]:6379\r\n",
	"-MOVED 9000 localhost:6379\r\n", "-NOSCRIPT no\r\n", "-TRYAGAIN later\r\n", "-LOADING now\r\n",
	"-CLUSTERDOWN it is\r\n", "-READONLY no\r\n", "-MASTERDOWN it is\r\n", "-BUSY script\r\n",
	"-NOAUTH who\r\n", "-NOPERM no\r\n", "-MISCONF disk\r\n",
	"+KEY\r\n+KEY\r\n", // one too many, while nobody else asks
}

// wrongSlots are replies to CLUSTER SLOTS.
var wrongSlots = []string{
	slotsOf(rowOf(9, 5462, 10922, "10.9.9.9", 6379)), // outvoted
	slotsOf(rowOf(1, 5462, 10922, "/tmp/socket", 6379)),
	slotsOf(rowOf(1, 0, slot.Count-1, "10.0.0.2", 6379)),
	slotsOf(rowOf(1, 5462, slot.Count, "10.0.0.2", 6379)),
	slotsOf(rowOf(1, -1, 10922, "10.0.0.2", 6379)), slotsOf(rowOf(1, 10922, 5462, "10.0.0.2", 6379)),
	slotsOf(rowOf(1, 5462, 10922, "10.0.0.2", 0)), slotsOf(rowOf(1, 5462, 10922, "10.0.0.2", 70000)),
	"*1\r\n" + rowOf(1, 5462, 10922, "10.0.0.2", 6379), "*1\r\n*2\r\n:0\r\n:1\r\n",
	slotsOf(rowOf(1, 5462, 10922, strings.Repeat("x", 10<<20), 6379)), nodeForEachSlot(),
	"*1\r\n*3\r\n:0\r\n:1\r\n:2\r\n", "*1\r\n*3\r\n+a\r\n:1\r\n*2\r\n$-1\r\n:1\r\n",
}

// nodeForEachSlot is CLUSTER SLOTS of more nodes than anybody has.
func nodeForEachSlot() string {
	var all strings.Builder
	fmt.Fprintf(&all, "*%d\r\n", slot.Count)
	for i := range slot.Count {
		all.WriteString(rowOf(1, i, i, fmt.Sprint("10.9.", i>>8, ".", i&255), 6379))
	}
	return all.String()
}

// wrongShards are replies to CLUSTER SHARDS of a node that refuses CLUSTER SLOTS.
var wrongShards = []string{
	":1\r\n", "*0\r\n", "*1\r\n:1\r\n", "*1\r\n*2\r\n$5\r\nslots\r\n:1\r\n",
	"*1\r\n*4\r\n$5\r\nslots\r\n*2\r\n:9\r\n:1\r\n" +
		"$5\r\nnodes\r\n*1\r\n*4\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$8\r\nendpoint\r\n$8\r\n10.9.9.9\r\n",
	"*1\r\n*4\r\n$5\r\nslots\r\n*2\r\n:0\r\n:16383\r\n" +
		"$5\r\nnodes\r\n*1\r\n*2\r\n$4\r\nrole\r\n$5\r\nslave\r\n",
}

// wrongNodes are replies to CLUSTER NODES.
var wrongNodes = []string{
	bulk("id0 10.9.9.9:6379@16379 master - 0 0 9 connected 0-16383\n"),
	bulk("id9 10.9.9.9:6379@16379 slave id0 0 0 9 connected\nid8 10.9.9.9:1@2 slave id1 0 0 9 connected\n"),
	bulk("id0 10.0.0.1:6379@16379 master,fail - 0 0 1 connected\n"),
	bulk("id0 10.0.0.1:6379@16379 slave id2 0 0 1 connected\n"),
	bulk("id0\n\nid1 :\nid2 : x\n x @ , - 0\n"), bulk(strings.Repeat("id0 ", 1<<18)),
}

// allLies are those of TestLies, and the beginnings of those of FuzzLies.
func allLies() (all []lies) {
	begin := []string{"MULTI", "GET KEY", "EXEC"}
	all = []lies{
		{askPlainly, "GET", slices.Concat(errands, shapes), 0, nil},
		{begin, "MULTI", slices.Concat(errands, shapes), 0, nil},
		{begin, "GET", slices.Concat(errands, shapes), 0, nil},
		{begin, "EXEC", slices.Concat(errands, shapes), 0, nil},
		{[]string{"LOCK KEY PX 1000"}, "EVALSHA", slices.Concat(errands, shapes), 0, nil},
		{[]string{"SCAN 0"}, "SCAN", shapes, 0, nil},
		{[]string{"SCAN 0"}, "CLUSTER NODES", slices.Concat(wrongNodes, shapes), 0, nil},
		{[]string{"MGET KEY {KEY}"}, "MGET", shapes, 0, nil},
		{askPlainly, "COMMAND", shapes, 2 * time.Minute, nil},
		{askPlainly, "CLUSTER SLOTS", slices.Concat(wrongSlots, shapes), 2 * time.Second, nil},
		{askPlainly, "CLUSTER SHARDS", wrongShards, 2 * time.Second,
			to("CLUSTER SLOTS", "-ERR unknown command\r\n")},
		{askPlainly, "CLUSTER NODES", slices.Concat(wrongNodes, shapes), 2 * time.Second,
			to("CLUSTER INFO", bulk("cluster_state:ok\r\ncluster_slots_fail:1\r\n"))},
	}
	for _, question := range []string{
		"CLUSTER INFO", "CLUSTER MYID", "INFO", "HELLO", "PING",
	} {
		all = append(all, lies{askPlainly, question, shapes, 2 * time.Second, nil})
	}
	return all
}

// told has the node tell one of them.
func (a *lies) told(s *stage, reply string) {
	if s.lied(a, reply); s.Failed() {
		s.Fatalf("%s is answered %.200q", a.command, reply)
	}
}

// A node that lies harms only those who ask it, and only with its own words, and is the last to be believed
// about others.
func TestLies(t *testing.T) {
	for _, a := range allLies() {
		t.Run(a.ask[0]+"/"+a.command, func(t *testing.T) {
			withLiar(t, func(s *stage) {
				for _, reply := range a.replies {
					a.told(s, reply)
				}
			})
		})
	}
}

// FuzzLies is TestLies with whatever a node says, if it says one thing a question: of two replies nobody
// knows which one is the lie.
func FuzzLies(f *testing.F) {
	all := allLies()
	for i, a := range all {
		if flag.Lookup("test.fuzz").Value.String() == "" {
			a.replies = a.replies[:1] // TestLies tells the others
		}
		for n := 0; n < len(a.replies); n += 10 {
			f.Add(byte(i), a.replies[n])
		}
	}
	f.Fuzz(func(t *testing.T, which byte, reply string) {
		replies, whole, _ := frames([]byte(reply))
		if len(reply) == 0 || len(replies) > 1 || len(replies) == 1 && !whole {
			return
		}
		withLiar(t, func(s *stage) { all[int(which)%len(all)].told(s, reply) })
	})
}
