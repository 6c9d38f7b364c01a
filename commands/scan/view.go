package scan

import (
	"strconv"
	"strings"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// nodeView is what a node says in CLUSTER NODES. The zero value is one that says nothing: it has no slots.
type nodeView struct {
	slots  *[slot.Count]bool // nil: it says nothing
	epoch  string            // of its configuration
	moving map[int]string    // slots that it hands over just now, to which node (id): it may have some keys
	addrs  map[string]string // of nodes, by id
	names  map[string]string // the same by their host names; "": it has none
	blind  bool              // CLUSTER NODES is forbidden: nobody says whether slots are moving
}

// parseNodeView reads the reply to CLUSTER NODES. Only the line of the node itself tells of slots that move,
// and of its epoch.
func parseNodeView(reply []byte) nodeView {
	v := nodeView{
		moving: make(map[int]string), addrs: make(map[string]string), names: make(map[string]string),
	}
	parsed, _, err := resp.Parse(reply)
	if err != nil || parsed.Err() != "" {
		v.blind = resp.Forbidden(reply)
		return v
	}
	for _, m := range cluster.Members(parsed, "") {
		v.addrs[m.ID], v.names[m.ID] = m.Addr(), m.Named()
		if m.Is("myself") {
			v.slots, v.epoch = new([slot.Count]bool), m.Epoch
			for _, word := range m.Slots {
				v.takeWord(word)
			}
		}
	}
	return v
}

// takeWord reads one of the node's own slots. A word is "5", "0-5460", or in brackets "[93->-id]" for a slot
// that leaves and "[77-<-id]" for one that comes. A word that is none of these is passed over.
func (v *nodeView) takeWord(word string) {
	if inner, ok := strings.CutPrefix(word, "["); ok {
		number, to, leaves := strings.Cut(strings.TrimSuffix(inner, "]"), "->-")
		if n, err := strconv.Atoi(number); err == nil && leaves {
			v.moving[n] = to
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

// hasSlot says whether the node serves slot n. Where nobody may ask, it is believed to.
func (v *nodeView) hasSlot(n int) bool { return v.blind || v.slots != nil && v.slots[n] }

// settled says that none of its slots is moving, as far as it tells.
func (v *nodeView) settled() bool { return v.blind || v.slots != nil && len(v.moving) == 0 }

// target is the id of the node to which slot n is being handed over, or "".
func (v *nodeView) target(n int) string { return v.moving[n] }

// runID tells one process of Redis from another by its reply to INFO server. Where INFO is forbidden all
// processes look alike: then a fail-over is seen by the layout and the epoch alone. "": it cannot be told.
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
