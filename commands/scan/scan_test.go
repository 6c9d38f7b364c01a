package scan

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tidwall/redcon"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/commands/cut"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
	"lockproxy/redlock"
)

func TestScanCursor(t *testing.T) {
	for _, c := range []scanCursor{
		{kind: byNode, first: 0, tag: 0xfffff, bits: 20, node: 1<<16 - 1},
		{kind: byNode, first: 0, tag: 0x1fff, bits: 13, node: 1<<23 - 1},
		{kind: byNode, first: 0, tag: 0xfff, bits: 12, node: 1<<34 - 1},
		{kind: byNode, first: slot.Count - 1, tag: 0xf, bits: 4, node: 1<<42 - 1},
		{kind: byNode, first: 5461, tag: 3, bits: 4, node: 1 << 34},
		{kind: bySlot, first: slot.Count - 1},
		{kind: bySlot},
	} {
		n, ok := c.number()
		back, parsed := parseScanCursor(strconv.AppendUint(nil, n, 10))
		if !ok || !parsed || back != c || n>>63 != 0 || n == 0 {
			t.Errorf("%+v is %d and then %+v", c, n, back)
		}
		c.node = 1 << 42
		if n, ok := c.number(); ok {
			t.Errorf("%+v is %d", c, n)
		}
	}
	for _, node := range []uint64{1<<16 - 1, 1<<23 - 1} {
		if n, ok := (scanCursor{node: node, first: slot.Count - 1, tag: 1<<40 - 1}).number(); !ok ||
			n >= 1<<53 {
			t.Errorf("the cursor of a common table is %d, which JavaScript cannot hold", n)
		}
	}
}

// inCluster is a proxy in front of a Redis Cluster.
type inCluster struct{ commands.Server }

func (inCluster) Clustered() bool { return true }

// scanned is an upstream whose slots move and whose masters fail while it is scanned. Its keys stay.
type scanned struct {
	commands.Actions
	t      *testing.T
	random *rand.Rand
	nodes  []*scannedNode
	lost   map[string]*scannedNode // by id: who took over
	known  []string                // what the proxy takes for the masters, in the order of their lowest slots
	of     [slot.Count]string      // and for the owners of the slots
	answer []byte
	calm   bool // nothing happens any more
	pace   int  // something may happen one time in so many, and one
	events int
	sent   map[string]int
	notes  map[string]string
	visits int // of slots
	layout string
	full   map[int]bool // slots that have keys
	epoch  int
}

// scannedNode is a master.
type scannedNode struct {
	id, run string
	epoch   int
	slots   [slot.Count]bool
	replica [2]string      // id and run id of the process that was in its place before
	moving  map[int]string // slots that it hands over: to whom
	keys    map[string]bool
}

const scanTable = 1 << 16 // positions in a node's table

// position is where a key stands in the table of a process.
func (n *scannedNode) position(key string) int {
	h := fnv.New32a()
	h.Write([]byte(n.run + key))
	return int(h.Sum32()%scanTable) + 1
}

// scan is SCAN of one node, three positions at a time.
func (n *scannedNode) scan(cursor int) []byte {
	var positions []int
	for key := range n.keys {
		if p := n.position(key); p > cursor {
			positions = append(positions, p)
		}
	}
	slices.Sort(positions)
	positions = slices.Compact(positions)
	next := 0
	if len(positions) > 3 {
		positions, next = positions[:3], positions[2]
	}
	var keys []string
	for key := range n.keys {
		if slices.Contains(positions, n.position(key)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return appendScan(nil, uint64(next), resp.AppendBulks(redcon.AppendArray(nil, len(keys)), keys...))
}

// nodes is CLUSTER NODES.
func (u *scanned) nodesText(self *scannedNode) string {
	var b strings.Builder
	for _, n := range u.nodes {
		flags := "master"
		if n == self {
			flags = "myself,master"
		}
		fmt.Fprintf(&b, "%s %s:7@17 %s - 0 0 %d connected", n.id, n.id, flags, n.epoch)
		for first := 0; first < slot.Count; first++ {
			if !n.slots[first] {
				continue
			}
			last := first
			for last+1 < slot.Count && n.slots[last+1] {
				last++
			}
			if first == last {
				fmt.Fprintf(&b, " %d", first)
			} else {
				fmt.Fprintf(&b, " %d-%d", first, last)
			}
			first = last
		}
		if n == self {
			for _, s := range sorted(n.moving) {
				fmt.Fprintf(&b, " [%d->-%s]", s, n.moving[s])
			}
			fmt.Fprintf(&b, " [3-<-nobody]")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func sorted(m map[int]string) (keys []int) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// refresh has the proxy see what is.
func (u *scanned) refresh() {
	u.known, u.layout = nil, ""
	for s := range slot.Count {
		u.of[s] = ""
		for _, n := range u.nodes {
			if n.slots[s] {
				u.of[s] = n.id
			}
		}
		if s == 0 || u.of[s] != u.of[s-1] {
			u.layout += fmt.Sprint(s, u.of[s], " ")
		}
		if u.of[s] != "" && !slices.Contains(u.known, u.of[s]) {
			u.known = append(u.known, u.of[s])
		}
	}
}

func (u *scanned) Reply(reply []byte)    { u.answer = reply }
func (u *scanned) Nodes() commands.Nodes { return scannedNodes{u: u} }

// scannedNodes implements of Nodes and Notes what SCAN needs.
type scannedNodes struct {
	commands.Nodes
	u *scanned
}

func (n scannedNodes) Single() bool          { return false }
func (n scannedNodes) Masters() int          { return len(n.u.known) }
func (n scannedNodes) Owner(s int) int       { return slices.Index(n.u.known, n.u.of[s]) }
func (n scannedNodes) Name(i int) string     { return n.u.known[i] }
func (n scannedNodes) Addr(i int) string     { return n.u.known[i] + ":7" }
func (n scannedNodes) Notes() commands.Notes { return n }
func (n scannedNodes) Layout() string        { return n.u.layout }
func (n scannedNodes) Of(name string) string { return n.u.notes[name] }
func (n scannedNodes) Set(name, text string) { n.u.notes[name] = text }

func (u *scanned) AskInTurn(addr string, reqs [][]byte, then commands.Merge) {
	var replies [][]byte
	for _, req := range reqs {
		if u.random.IntN(len(reqs)) == 0 {
			u.happen()
		}
		replies = append(replies, u.ask(strings.TrimSuffix(addr, ":7"), req))
	}
	u.happen()
	if answer := then(2, replies); answer != nil {
		u.answer = answer
	}
}

func (u *scanned) Gone() bool { return false }

func (u *scanned) Await(start func(func([]byte)), then func([]byte) []byte, _ redlock.Delivery) {
	done := make(chan []byte, 1)
	start(func(reply []byte) { done <- reply })
	u.answerWith(then(<-done))
}

// Ask is of a read that goes where its slot is.
func (u *scanned) Ask(to pipe.Target, req []byte, _ commands.Asking, then func([]byte) []byte) {
	u.refresh()
	u.answerWith(then(u.ask(u.of[slotOf(to)], req)))
}

// AskParts is of TYPE: names tell it.
func (u *scanned) AskParts(parts []cut.Part, _ commands.Asking, merge commands.Merge) {
	var replies [][]byte
	for _, part := range parts {
		kind := "+list\r\n"
		if strings.HasSuffix(wordsOf(u.t, part.Request)[1], "0") {
			kind = "+string\r\n"
		}
		replies = append(replies, []byte(kind))
	}
	u.answerWith(merge(2, replies))
}

func (u *scanned) answerWith(answer []byte) {
	if answer != nil {
		u.answer = answer
	}
}

func (u *scanned) ask(id string, req []byte) []byte {
	words := wordsOf(u.t, req)
	u.sent[words[0]]++
	i := slices.IndexFunc(u.nodes, func(n *scannedNode) bool { return n.id == id })
	if i < 0 {
		u.refresh() // it has gone: the proxy notices, and gives up
		return []byte("-ERR no node took it in time\r\n")
	}
	n := u.nodes[i]
	switch {
	case words[0] == "SCAN":
		cursor, _ := strconv.Atoi(words[1])
		return n.scan(cursor)
	case words[0] == "INFO":
		return redcon.AppendBulkString(nil, "# Server\r\nrun_id:"+n.run+"\r\n")
	case words[0] == "EXISTS":
		s := slot.Of([]byte(words[1]))
		for _, other := range u.nodes {
			if other.slots[s] && other != n {
				return fmt.Appendf(nil, "-MOVED %d %s:7\r\n", s, other.id)
			}
		}
		return []byte(":0\r\n")
	case words[1] == "GETKEYSINSLOT":
		s, _ := strconv.Atoi(words[2])
		u.visits++
		var keys []string
		if u.full[s] {
			for key := range n.keys {
				if slot.Of([]byte(key)) == s {
					keys = append(keys, key)
				}
			}
		}
		return resp.AppendBulks(redcon.AppendArray(nil, len(keys)), keys...)
	}
	return redcon.AppendBulkString(nil, u.nodesText(n))
}

// happen has something happen now and then.
func (u *scanned) happen() {
	r := u.random
	if u.calm || r.IntN(1+u.pace) > 0 {
		return
	}
	n := u.nodes[r.IntN(len(u.nodes))]
	switch r.IntN(20) {
	case 0, 1, 16, 17: // a slot begins to move
		to := u.nodes[r.IntN(len(u.nodes))]
		s := u.someSlot()
		if to != n && n.slots[s] && n.moving[s] == "" && len(n.moving) < 2 {
			n.moving[s] = to.id
		}
	case 2, 3, 4, 5: // some of its keys move
		for _, s := range sorted(n.moving) {
			u.move(n, s, 1+r.IntN(2))
		}
	case 6, 7: // it has moved
		for _, s := range sorted(n.moving) {
			u.move(n, s, len(n.keys))
			u.give(n, u.node(n.moving[s]), s)
			delete(n.moving, s)
			break
		}
	case 8: // a run of slots moves at once
		to := u.nodes[r.IntN(len(u.nodes))]
		if to == n {
			return
		}
		first := u.someSlot()
		for s := first; s < min(first+r.IntN(200)+1, slot.Count); s++ {
			if n.slots[s] && n.moving[s] == "" {
				u.move2(n, to, s, len(n.keys))
				u.give(n, to, s)
			}
		}
	case 9: // a slot goes and comes back
		to, s := u.nodes[r.IntN(len(u.nodes))], u.someSlot()
		if to == n || !n.slots[s] || n.moving[s] != "" {
			return
		}
		u.move2(n, to, s, len(n.keys))
		u.give(n, to, s)
		u.refreshAt(r.IntN(4))
		u.move2(to, n, s, len(to.keys))
		u.give(to, n, s)
	case 18: // fail-over
		for _, other := range u.nodes {
			for _, id := range other.moving {
				if other == n || id == n.id {
					return // a move would be lost
				}
			}
		}
		if u.random.IntN(2) == 0 && n.replica != [2]string{} { // and back
			n.id, n.run, n.replica = n.replica[0], n.replica[1], [2]string{n.id, n.run}
		} else {
			n.replica = [2]string{n.id, n.run}
			n.id, n.run = u.name("n"), u.name("r")
		}
	case 10: // restart
		n.run = u.name("r")
	case 11, 12, 13, 14, 15: // the proxy looks
		u.refresh()
	default:
		return
	}
	u.events++
}

// refreshAt has the proxy look one time in four.
func (u *scanned) refreshAt(n int) {
	if n == 0 {
		u.refresh()
	}
}

// give makes to the owner of a slot, as CLUSTER SETSLOT NODE does.
func (u *scanned) give(n, to *scannedNode, s int) {
	n.slots[s], to.slots[s] = false, true
	for _, other := range u.nodes {
		if other != to && other.epoch >= to.epoch {
			u.epoch++
			to.epoch = u.epoch
		}
	}
}

// someSlot is one that has keys.
func (u *scanned) someSlot() int {
	i := u.random.IntN(50)
	return slot.Of(fmt.Appendf(nil, "{%d}", i))
}

func (u *scanned) name(prefix string) string { return prefix + strconv.Itoa(u.random.IntN(1<<30)) }

func (u *scanned) node(id string) *scannedNode {
	return u.nodes[slices.IndexFunc(u.nodes, func(n *scannedNode) bool { return n.id == id })]
}

func (u *scanned) move(n *scannedNode, s, most int) { u.move2(n, u.node(n.moving[s]), s, most) }

func (u *scanned) move2(n, to *scannedNode, s, most int) {
	var keys []string
	for key := range n.keys {
		if slot.Of([]byte(key)) == s {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, cmp.Compare[string])
	for _, key := range keys[:min(most, len(keys))] {
		delete(n.keys, key)
		to.keys[key] = true
	}
}

// newScanned is an upstream of n masters with keys, of which several are in one slot.
func newScanned(t *testing.T, random *rand.Rand, n int) *scanned {
	u := &scanned{t: t, random: random, sent: make(map[string]int), notes: make(map[string]string),
		full: make(map[int]bool)}
	for i := range n {
		u.nodes = append(u.nodes, &scannedNode{id: fmt.Sprint("n", i), run: fmt.Sprint("r", i),
			moving: map[int]string{}, keys: map[string]bool{}})
	}
	for s := range slot.Count {
		u.nodes[s*n/slot.Count].slots[s] = true
	}
	for i := range 300 {
		key := fmt.Sprintf("{%d}%d", i/6, i)
		u.nodes[slot.Of([]byte(key))*n/slot.Count].keys[key] = true
		u.full[slot.Of([]byte(key))] = true
	}
	u.refresh()
	return u
}

// visit scans until the end, and returns how often each key was found.
func (u *scanned) visit(calls int) map[string]int {
	return u.visitFrom([]byte("0"), calls, func() {})
}

// visitFrom starts at a cursor. between is called before each call but the first.
func (u *scanned) visitFrom(cursor []byte, calls int, between func()) map[string]int {
	found := make(map[string]int)
	for n := 0; ; n++ {
		if n > 0 {
			between()
		}
		if n == calls {
			u.calm = true
			u.refresh()
		}
		if n > calls+3000 {
			u.t.Fatalf("it never ends: %s", cursor)
		}
		c := &commands.Call{Args: [][]byte{[]byte("SCAN"), slices.Clone(cursor)}, Server: inCluster{},
			Actions: u}
		u.answer = nil
		commands.Answering(scan)(c)
		v, _, err := resp.Parse(u.answer)
		if err != nil || v.Kind == '-' && u.calm {
			u.t.Fatalf("%q", u.answer)
		}
		if v.Kind == '-' {
			continue // it is asked again
		}
		for _, key := range v.Elems[1].Elems {
			found[key.Text()]++
		}
		if cursor = v.Elems[0].Str; string(cursor) == "0" {
			return found
		}
		if n, err := strconv.ParseInt(string(cursor), 10, 64); err != nil || n <= 0 {
			u.t.Fatalf("cursor %s", cursor)
		}
	}
}

// A slot moves between two masters, one of which is done, at each moment of the scan; and perhaps back.
func TestScanMovedSlot(t *testing.T) {
	for at := 0; at < 70; at += 10 {
		for _, way := range [][2]int{{0, 1}, {1, 0}} {
			for _, back := range []int{0, 1, 20} {
				u := newScanned(t, rand.New(rand.NewPCG(1, 1)), 2)
				u.calm = true
				pages, moved := 0, u.someSlot()
				for !u.nodes[way[0]].slots[moved] {
					moved = u.someSlot()
				}
				swap := func(from, to int) {
					u.move2(u.nodes[from], u.nodes[to], moved, len(u.nodes[from].keys))
					u.give(u.nodes[from], u.nodes[to], moved)
				}
				found := u.visitFrom([]byte("0"), 0, func() {
					if pages++; pages == at {
						swap(way[0], way[1])
						u.refreshAt(at % 4)
					}
					if back > 0 && pages == at+back {
						swap(way[1], way[0])
						u.refreshAt(at % 3)
					}
				})
				if len(found) != 300 {
					t.Fatalf("at page %d, %v, back after %d: %d keys", at, way, back, len(found))
				}
			}
		}
	}
}

// Another process is asked for some pages only.
func TestScanFailoverAndBack(t *testing.T) {
	for at := 1; at < 70; at += 6 {
		u := newScanned(t, rand.New(rand.NewPCG(1, 1)), 2)
		u.calm = true
		pages := 0
		change := func(id, run string) {
			n := u.nodes[0]
			n.id, n.run, n.replica = id, run, [2]string{n.id, n.run}
			u.refresh()
		}
		found := u.visitFrom([]byte("0"), 0, func() {
			switch pages++; pages {
			case at:
				change("other", "otherrun")
			case at + 4:
				change(u.nodes[0].replica[0], u.nodes[0].replica[1])
			}
		})
		if len(found) != 300 {
			t.Fatalf("at page %d: %d keys", at, len(found))
		}
	}
}

// Going slot by slot takes no more than all slots, and the options that the nodes know otherwise. A page ends
// when picking its keys has taken long, which a busy machine would have it do: so in fake time.
func TestScanBySlot(t *testing.T) { synctest.Test(t, scanBySlot) }

func scanBySlot(t *testing.T) {
	u := newScanned(t, rand.New(rand.NewPCG(1, 1)), 3)
	u.calm = true
	start, _ := scanCursor{kind: bySlot}.number()
	do := func(args ...string) string {
		c := &commands.Call{Server: inCluster{}, Actions: u}
		for _, arg := range append([]string{"SCAN", strconv.FormatUint(start, 10)}, args...) {
			c.Args = append(c.Args, []byte(arg))
		}
		u.answer = nil
		commands.Answering(scan)(c)
		return string(u.answer)
	}
	for _, c := range []struct{ want, args string }{
		{"-ERR syntax error\r\n", "MATCH"},
		{"-ERR syntax error\r\n", "COUNT 0"},
		{"-ERR syntax error\r\n", "COUNT 1 WHAT x"},
		{"-ERR value is not an integer or out of range\r\n", "COUNT x"},
	} {
		if got := do(strings.Fields(c.args)...); got != c.want {
			t.Errorf("%s: %q", c.args, got)
		}
	}
	found := u.visitFrom(strconv.AppendUint(nil, start, 10), 0, func() {})
	if len(found) != 300 || u.visits != slot.Count {
		t.Errorf("%d keys in %d visits of slots", len(found), u.visits)
	}
	for key, times := range found {
		if times != 1 {
			t.Errorf("%s was found %d times", key, times)
		}
	}
	n, keys := uint64(0), map[string]bool{}
	for start > 0 {
		v, _, err := resp.Parse([]byte(do("TYPE", "STRING", "match", "{1?}*")))
		if err != nil || v.Err() != "" {
			t.Fatalf("%q", u.answer)
		}
		for _, key := range v.Elems[1].Elems {
			keys[key.Text()] = true
		}
		start, _ = strconv.ParseUint(v.Elems[0].Text(), 10, 64)
		n++
	}
	if len(keys) != 6 || !keys["{10}60"] || n > 32 {
		t.Errorf("%v in %d pages", keys, n)
	}
}

// As long as nothing happens, each master is gone through once and each key is found once.
func TestScanCalm(t *testing.T) {
	for n := 2; n < 5; n++ {
		u := newScanned(t, rand.New(rand.NewPCG(1, 2)), n)
		for s := 100; s < slot.Count; s += 100 { // fragments make no difference
			for _, m := range u.nodes {
				if m.slots[s] {
					u.move2(m, u.nodes[s%n], s, len(m.keys))
				}
				m.slots[s] = m == u.nodes[s%n]
			}
		}
		u.refresh()
		u.calm = true
		found := u.visit(0)
		for key, times := range found {
			if times != 1 {
				t.Errorf("%s was found %d times", key, times)
			}
		}
		if len(found) != 300 || u.sent["CLUSTER"] != 2*n {
			t.Errorf("%d keys of %d masters, %v", len(found), n, u.sent)
		}
	}
}

// Masters with few keys are gone through in one call, up to COUNT keys.
func TestScanOfLittleData(t *testing.T) {
	u := newScanned(t, rand.New(rand.NewPCG(1, 2)), 4)
	u.calm = true
	left := 0
	for _, m := range u.nodes {
		kept := 0
		for key := range m.keys {
			if kept++; kept > 3 {
				delete(m.keys, key)
			}
		}
		left += min(kept, 3)
	}
	ask := func(args ...string) (cursor string, keys int) {
		c := &commands.Call{Server: inCluster{}, Actions: u}
		for _, arg := range append([]string{"SCAN", "0"}, args...) {
			c.Args = append(c.Args, []byte(arg))
		}
		u.answer = nil
		commands.Answering(scan)(c)
		v, _, err := resp.Parse(u.answer)
		if err != nil || v.Err() != "" {
			t.Fatalf("%q", u.answer)
		}
		return v.Elems[0].Text(), len(v.Elems[1].Elems)
	}
	if cursor, n := ask("COUNT", "100"); cursor != "0" || n != left {
		t.Errorf("%d of %d keys, and then %s", n, left, cursor)
	}
	if cursor, n := ask("COUNT", "4"); cursor == "0" || n != 6 {
		t.Errorf("COUNT 4: %d keys, and then %s", n, cursor)
	}
	if found := u.visit(0); len(found) != left {
		t.Errorf("%d of %d keys", len(found), left)
	}
}

// While slots move, key by key or many at once, and masters fail over and restart, each key is found all the
// same.
func TestScanVisitsEachKey(t *testing.T) {
	seeds, least, events := uint64(60), 5000, 0
	if testing.Short() {
		seeds, least = 20, 1500
	}
	for seed := range seeds {
		if seed == 0 {
			seed = 1249 // slots move between the look at a cursor and the first page of its master
		}
		random := rand.New(rand.NewPCG(seed, 7))
		u := newScanned(t, random, 2+random.IntN(4))
		u.pace = int(seed%4) * 12
		found := u.visit(20 + random.IntN(200))
		for i := range 300 {
			if key := fmt.Sprintf("{%d}%d", i/6, i); found[key] == 0 {
				t.Errorf("seed %d: %s was not found", seed, key)
			}
		}
		if t.Failed() {
			return
		}
		events += u.events
	}
	if events < least {
		t.Errorf("only %d events", events)
	}
}

// wordsOf are the arguments of a whole command.
func wordsOf(t *testing.T, req []byte) (words []string) {
	t.Helper()
	v, rest, err := resp.Parse(req)
	if err != nil || len(rest) > 0 {
		t.Fatalf("not one command: %q", req)
	}
	for _, e := range v.Elems {
		words = append(words, e.Text())
	}
	return words
}

// slotOf is the slot of a target, or AnySlot.
func slotOf(to pipe.Target) int {
	if n, ok := slotsOf()[to]; ok {
		return n
	}
	return commands.AnySlot
}

var slotsOf = sync.OnceValue(func() map[pipe.Target]int {
	of := make(map[pipe.Target]int, slot.Count)
	for n := range slot.Count {
		of[pipe.ToSlot(n)] = n
	}
	return of
})
