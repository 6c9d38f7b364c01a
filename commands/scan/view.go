package scan

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// nodeView is what a node says in CLUSTER NODES.
type nodeView struct {
	slots  *[slot.Count]bool // nil: it says nothing
	epoch  string            // of its configuration
	moving []movingSlot      // slots that it hands over just now
	addrs  map[string]string // of nodes, by id
	names  map[string]string // the same by their host names, if they have one
	blind  bool              // CLUSTER NODES is forbidden: nobody says whether slots are moving
}

// movingSlot is a slot that is being handed over: some of its keys may be at another node already.
type movingSlot struct {
	slot int
	to   string // node id
}

// parseNodeView reads the reply to CLUSTER NODES. Each node has a line: id, address and flags, its epoch as
// the seventh word, and from the ninth on its slots, such as 7 or 8-11 or, only in its own line, [7->-id].
func parseNodeView(reply []byte) nodeView {
	v := nodeView{addrs: make(map[string]string), names: make(map[string]string)}
	parsed, _, err := resp.Parse(reply)
	if err != nil || parsed.Err() != "" {
		v.blind = resp.Forbidden(reply)
		return v
	}
	for line := range strings.Lines(parsed.Text()) {
		words := strings.Fields(line)
		if len(words) < 8 {
			continue
		}
		addr, rest, _ := strings.Cut(words[1], "@")
		if colon := strings.LastIndexByte(addr, ':'); colon > 0 {
			v.addrs[words[0]] = net.JoinHostPort(addr[:colon], addr[colon+1:])
			// Behind the port of the bus: a name, if the node announces one, and key=value.
			_, name, _ := strings.Cut(rest, ",")
			if name, _, _ = strings.Cut(name, ","); name != "" && !strings.Contains(name, "=") {
				v.names[words[0]] = net.JoinHostPort(name, addr[colon+1:])
			}
		}
		if slices.Contains(strings.Split(words[2], ","), "myself") {
			v.slots, v.epoch = new([slot.Count]bool), words[6]
			for _, word := range words[8:] {
				v.take(word)
			}
		}
	}
	return v
}

// take reads one word of the node's own line.
func (v *nodeView) take(word string) {
	if inner, ok := strings.CutPrefix(word, "["); ok {
		number, to, leaves := strings.Cut(strings.TrimSuffix(inner, "]"), "->-")
		if n, err := strconv.Atoi(number); err == nil && leaves {
			v.moving = append(v.moving, movingSlot{n, to})
		}
		return
	}
	from, to, ranged := strings.Cut(word, "-")
	if !ranged {
		to = from
	}
	first, err := strconv.Atoi(from)
	last, failed := strconv.Atoi(to)
	if err != nil || failed != nil {
		return
	}
	for n := max(first, 0); n <= min(last, slot.Count-1); n++ {
		v.slots[n] = true
	}
}

func (v *nodeView) has(n int) bool { return v.blind || v.slots != nil && v.slots[n] }

// settled says that none of its slots is moving, as far as it tells.
func (v *nodeView) settled() bool { return v.blind || v.slots != nil && len(v.moving) == 0 }

// target is the id of the node to which slot n is being handed over, or "".
func (v *nodeView) target(n int) string {
	for _, m := range v.moving {
		if m.slot == n {
			return m.to
		}
	}
	return ""
}

// runID tells one process of Redis from another by its reply to INFO server.
func runID(reply []byte) string {
	if resp.Forbidden(reply) {
		return "not told"
	}
	v, _, err := resp.Parse(reply)
	if err != nil || v.Err() != "" {
		return ""
	}
	return cluster.Field(v, "run_id")
}
