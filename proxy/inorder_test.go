package proxy

import (
	"bufio"
	"crypto/sha1"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/internal/resp"
	"lockproxy/internal/scripted"
	"lockproxy/internal/slot"
)

// This file proves that the commands of one client take effect in its order, key by key, whatever has to be
// sent again. Each write appends its number to its keys:
//
//	what a key has in the end     the numbers of writes, each once, and rising
//	a write that is answered      is there; one that is refused is not; one of unknown outcome may be
//	the answer to a read          what was there of the writes before it, and of none behind it

var (
	orderSeed   = flag.Uint64("order.seed", 1, "the first seed of TestOrderOfOneClient; 0: the time")
	orderRounds = flag.Int("order.rounds", 12, "how many seeds it tries with each upstream")
	orderTrace  = flag.Bool("order.trace", false, "whether it shows what nodes are asked")
)

// The scripts of the test. Nodes know what they do by their source.
const (
	orderAppend  = "append"  // to all its keys
	orderRead    = "read"    // its key
	orderUnknown = "unknown" // append, but EVAL is how the proxy learns it
)

func orderSHA(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// R33: what is sent again keeps its place.
func TestOrderOfOneClient(t *testing.T) {
	commandReply() // from a real socket, so before time stops
	seed := *orderSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	for _, masters := range []int{1, 3} {
		for i := range uint64(*orderRounds) {
			for proto := 2; proto <= 3; proto++ {
				name := fmt.Sprintf("%d masters, RESP%d, seed %d", masters, proto, seed+i)
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { orderOfOneClient(t, masters, proto, seed+i) })
				})
			}
		}
	}
}

// orderNodes are nodes that lose scripts, slots and connections.
type orderNodes struct {
	*rig
	mu       sync.Mutex
	dice     *rand.Rand
	data     map[string]string // the numbers of writes, by key
	at       map[string]int    // the nodes of keys
	owner    map[int]int       // the nodes of slots
	moving   map[int]int       // and to which node they move
	scripts  []map[string]string
	refusal  []string // of a node, to all commands
	readOnly []bool
	conns    []map[*orderConn]bool
	began    time.Time
	version  uint64
	shown    *cluster.Topology
}

var orderKeys = []string{"{a}1", "{a}2", "{a}3", "{b}1", "{b}2", "c"}

func orderOfOneClient(t *testing.T, masters, proto int, seed uint64) {
	r := &rig{T: t}
	o := &orderNodes{
		rig: r, dice: rand.New(rand.NewPCG(seed, 1)), data: make(map[string]string), at: make(map[string]int),
		owner: make(map[int]int), moving: make(map[int]int), refusal: make([]string, masters),
		readOnly: make([]bool, masters),
	}
	for range masters {
		o.scripts = append(o.scripts, make(map[string]string))
		o.conns = append(o.conns, make(map[*orderConn]bool))
	}
	for _, key := range orderKeys {
		n := slot.Of([]byte(key))
		o.owner[n] = n * masters / slot.Count
	}
	o.show()
	o.began = time.Now()
	r.node = o.dial
	r.run(Options{
		Upstream: o, PubSub: r, Portable: true, Loops: 1,
		Pipes: pipe.Options{Budget: 2 * time.Second, Timeout: 5 * time.Second},
	}, func(r *rig) { o.play(seed, proto) })
	time.Sleep(time.Minute) // nodes see that their connections are closed
}

// Topology implements Upstream.
func (o *orderNodes) Topology() *cluster.Topology {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.shown
}

// show has the proxy learn who has which slot.
func (o *orderNodes) show() {
	o.mu.Lock()
	o.version++
	masters := len(o.scripts)
	o.shown = stormTopology(o.version, masters, func(s int) int {
		if n, ok := o.owner[s]; ok {
			return n
		}
		return s * masters / slot.Count
	})
	if masters == 1 {
		o.shown.Kind = cluster.Single
	}
	o.mu.Unlock()
	if o.server != nil {
		for _, w := range o.server.workers {
			w.loop.Post(w.pool.Update)
		}
	}
}

func (o *orderNodes) roll(n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dice.IntN(n)
}

// orderCommand is what the client has sent, and what became of it.
type orderCommand struct {
	words []string
	keys  []string
	reads bool
	reply string
}

// play is a client that sends pipelines while nodes are in trouble, and then judges.
func (o *orderNodes) play(seed uint64, proto int) {
	stop, over := make(chan bool), make(chan bool)
	go func() { defer close(over); o.trouble(stop) }()
	c := o.connect()
	c.send("HELLO " + strconv.Itoa(proto))
	orderReply(o.T, c.r)
	for _, source := range []string{orderAppend, orderRead} {
		c.send("SCRIPT LOAD " + source)
		orderReply(o.T, c.r)
	}
	dice := rand.New(rand.NewPCG(seed, 2))
	var all []*orderCommand
	for range 25 {
		var b []byte
		first := len(all)
		for range 1 + dice.IntN(16) {
			cmd := orderPick(dice, len(all))
			all = append(all, cmd)
			b = resp.AppendCommandStrings(b, cmd.words...)
		}
		go c.Write(b) // which ends when the proxy has read it
		for _, cmd := range all[first:] {
			cmd.reply = orderReply(o.T, c.r)
		}
	}
	close(stop)
	<-over
	o.judge(all)
}

// orderPick is command n.
func orderPick(dice *rand.Rand, n int) *orderCommand {
	id := strconv.Itoa(n)
	key := orderKeys[dice.IntN(len(orderKeys))]
	two := orderKeys[:2+dice.IntN(2)] // of one slot
	eval := func(how, script string, keys ...string) *orderCommand {
		words := append([]string{how, script, strconv.Itoa(len(keys))}, keys...)
		return &orderCommand{words: append(words, id), keys: keys}
	}
	switch dice.IntN(13) {
	case 0, 1, 2:
		return &orderCommand{words: []string{"APPEND", key, id + "."}, keys: []string{key}}
	case 3, 4:
		return eval("EVALSHA", orderSHA(orderAppend), key)
	case 5:
		return eval("EVALSHA", orderSHA(orderAppend), two...)
	case 6:
		return eval("EVAL", orderAppend, two[1:]...)
	case 7:
		return eval("EVALSHA", orderSHA(orderUnknown), key)
	case 8:
		if n > 100 && dice.IntN(8) == 0 {
			return eval("EVAL", orderUnknown, key)
		}
		return eval("EVAL", orderAppend, key)
	case 9:
		keys := []string{key, orderKeys[dice.IntN(len(orderKeys))]}
		return &orderCommand{words: append([]string{"MGET"}, keys...), keys: keys, reads: true}
	case 10:
		cmd := eval("EVALSHA", orderSHA(orderRead), key)
		cmd.reads = true
		return cmd
	}
	return &orderCommand{words: []string{"GET", key}, keys: []string{key}, reads: true}
}

// orderReply reads one reply of one line, or a string, or a map.
func orderReply(t *testing.T, r *bufio.Reader) string {
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimRight(line, "\r\n")
	switch n, _ := strconv.Atoi(text[1:]); {
	case text[0] == '$' && n >= 0:
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatal(err)
		}
		return "$" + string(b[:n])
	case text[0] == '*':
		var all []string
		for range n {
			all = append(all, orderReply(t, r))
		}
		return strings.Join(all, ",")
	case text[0] == '%':
		for range 2 * n {
			orderReply(t, r)
		}
	}
	return text
}

// judge holds what nodes have done against what they may have.
func (o *orderNodes) judge(all []*orderCommand) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ran := make(map[string]bool) // "key number"
	for key, value := range o.data {
		last := -1
		for _, text := range strings.Split(strings.TrimSuffix(value, "."), ".") {
			n, err := strconv.Atoi(text)
			if err != nil || n <= last {
				o.Errorf("%s has %s: %d is behind %d", key, value, n, last)
			}
			last = n
			ran[key+" "+text] = true
		}
	}
	for n, cmd := range all {
		values := strings.Split(cmd.reply, ",")
		refused := cmd.reply[0] == '-'
		unknown := strings.Contains(cmd.reply, "may or may not have run")
		for i, key := range cmd.keys {
			if !cmd.reads {
				if is := ran[fmt.Sprint(key, " ", n)]; is == refused && !unknown {
					o.Errorf("%d %q was answered %q; that it has run is %v: %s has %s",
						n, cmd.words, cmd.reply, is, key, o.data[key])
				}
				continue
			}
			want := "" // what was written before
			for _, text := range strings.SplitAfter(o.data[key], ".") {
				if before, err := strconv.Atoi(strings.TrimSuffix(text, ".")); err == nil && before < n {
					want += text
				}
			}
			if !refused && values[i] != "$"+want && (want != "" || values[i] != "$-1") {
				o.Errorf("%d %q was answered %q, want %q: %s has %s",
					n, cmd.words, cmd.reply, want, key, o.data[key])
			}
		}
	}
}

// trouble makes some until stop is closed, and then ends it.
func (o *orderNodes) trouble(stop chan bool) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(1+o.roll(12)) * time.Millisecond):
		}
		o.mu.Lock()
		node, masters := o.dice.IntN(len(o.scripts)), len(o.scripts)
		of := slot.Of([]byte(orderKeys[o.dice.IntN(len(orderKeys))]))
		var cut []*orderConn
		show := false
		switch o.dice.IntN(10) {
		case 0, 1:
			clear(o.scripts[node])
		case 2:
			for c := range o.conns[node] {
				cut = append(cut, c)
			}
			if o.dice.IntN(2) == 0 {
				clear(o.scripts[node])
			}
		case 3:
			o.refusal[node] = "-LOADING Redis is loading the dataset in memory\r\n"
		case 4:
			o.refusal[node] = "-CLUSTERDOWN The cluster is down\r\n"
		case 5:
			o.readOnly[node] = !o.readOnly[node]
		case 6, 7:
			if _, moves := o.moving[of]; !moves && masters > 1 {
				o.moving[of] = (o.owner[of] + 1 + o.dice.IntN(masters-1)) % masters
			} else if moves {
				o.moveKey(of)
			}
		case 8:
			if to, moves := o.moving[of]; moves {
				for o.moveKey(of) {
				}
				delete(o.moving, of)
				o.owner[of] = to
			}
		case 9:
			show = true
		}
		if o.dice.IntN(2) == 0 {
			o.refusal[node], o.readOnly[node] = "", false
		}
		o.mu.Unlock()
		for _, c := range cut {
			c.end()
		}
		if show {
			o.show()
		}
	}
}

// moveKey moves one key of a slot that moves; false: there is none left.
func (o *orderNodes) moveKey(of int) bool {
	for _, key := range orderKeys {
		if at, there := o.at[key]; there && slot.Of([]byte(key)) == of && at != o.moving[of] {
			o.at[key] = o.moving[of]
			return true
		}
	}
	return false
}

// orderConn is a connection to a node.
type orderConn struct {
	net.Conn
	o      *orderNodes
	node   int
	asking bool
	cut    bool // it runs nothing more
	mute   bool // its replies are lost
}

// end ends the connection.
func (c *orderConn) end() {
	c.o.mu.Lock()
	c.cut = true
	c.o.mu.Unlock()
	c.Close()
}

func (o *orderNodes) dial(node int, _ cluster.Mode, _ bool, here, there net.Conn) (net.Conn, error) {
	c := &orderConn{Conn: there, o: o, node: node - 1}
	o.mu.Lock()
	o.conns[c.node][c] = true
	o.mu.Unlock()
	go func() {
		defer c.Close()
		scripted.Each(c, func(words []string) bool {
			if o.roll(4) == 0 {
				time.Sleep(time.Duration(o.roll(3000)) * time.Microsecond)
			}
			reply := c.answer(words)
			if *orderTrace {
				fmt.Printf("%v node %d, %p: %.50q %.50q\n", time.Since(o.began), c.node+1, c, words,
					reply)
			}
			if !c.mute && o.roll(100) == 0 { // it has run, as has what follows, and nobody hears of that
				c.mute = true
				time.AfterFunc(time.Duration(o.roll(1000))*time.Microsecond, c.end)
			}
			if c.mute && reply != scripted.Cut {
				return true
			}
			return scripted.Write(c, reply)
		}, nil)
		o.mu.Lock()
		delete(o.conns[c.node], c)
		o.mu.Unlock()
	}()
	return here, nil
}

// answer is what a node says.
func (c *orderConn) answer(words []string) string {
	o := c.o
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.cut {
		return scripted.Cut
	}
	asked := c.asking
	c.asking = false
	word, source := strings.ToUpper(words[0]), ""
	var keys []string
	number := ""
	switch word {
	case "ASKING":
		c.asking = true
		return "+OK\r\n"
	case "CLIENT":
		return ":1\r\n"
	case "SCRIPT":
		if o.refusal[c.node] != "" {
			return o.refusal[c.node]
		}
		o.scripts[c.node][orderSHA(words[2])] = words[2]
		return "+" + orderSHA(words[2]) + "\r\n"
	case "GET", "MGET":
		keys, source = words[1:], orderRead
	case "APPEND":
		keys, source, number = words[1:2], orderAppend, words[2]
	case "EVAL", "EVALSHA":
		n, _ := strconv.Atoi(words[2])
		keys, source = words[3:3+n], words[1]
		if len(words) > 3+n {
			number = words[3+n] + "."
		}
	default:
		return "+OK\r\n"
	}
	if no := c.elsewhere(keys, asked); no != "" {
		return no
	}
	if o.refusal[c.node] != "" {
		return o.refusal[c.node]
	}
	switch word {
	case "EVAL":
		o.scripts[c.node][orderSHA(source)] = source
	case "EVALSHA":
		var there bool
		if source, there = o.scripts[c.node][words[1]]; !there {
			return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
		}
	}
	if source == orderRead {
		reply := ""
		for _, key := range keys {
			if value, there := o.data[key]; there {
				reply += fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
			} else {
				reply += "$-1\r\n"
			}
		}
		if word == "MGET" {
			return fmt.Sprintf("*%d\r\n%s", len(keys), reply)
		}
		return reply
	}
	if o.readOnly[c.node] {
		return "-READONLY You can't write against a read only replica.\r\n"
	}
	for _, key := range keys {
		o.data[key] += number
		if _, there := o.at[key]; !there {
			o.at[key] = c.node
		}
	}
	return ":1\r\n"
}

// elsewhere sends a command on as a node of a cluster does; "": it may run here.
func (c *orderConn) elsewhere(keys []string, asked bool) string {
	o := c.o
	of := slot.Of([]byte(keys[0]))
	to, moves := o.moving[of]
	missing := 0
	for _, key := range keys {
		if at, there := o.at[key]; !there || at != c.node {
			missing++
		}
	}
	some := !slices.Contains([]int{0, len(keys)}, missing)
	switch {
	case len(o.scripts) == 1, o.owner[of] == c.node && !moves:
		return ""
	case o.owner[of] == c.node && missing == 0:
		return ""
	case o.owner[of] == c.node && some,
		o.owner[of] != c.node && moves && to == c.node && asked && missing > 0 && len(keys) > 1:
		return "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
	case o.owner[of] == c.node:
		return fmt.Sprintf("-ASK %d node:%d\r\n", of, to+1)
	case moves && to == c.node && asked:
		return ""
	}
	return fmt.Sprintf("-MOVED %d node:%d\r\n", of, o.owner[of]+1)
}
