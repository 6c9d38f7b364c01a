package compare

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockproxy/integration/rig"
)

var talkStart = regexp.MustCompile(`^(?:([a-z])> ?)?(?:(\d+):)? ?(.*)$`)

// The ways in which replies differ.
const (
	varies  = "varies"  // from moment to moment, at bare servers too: types and sizes are the same
	chance  = "chance"  // as varies, errors among them: there is a reply, no more is known
	ours    = "ours"    // the proxy says something else, on purpose
	refused = "refused" // the proxy does not let it through; it is not sent to the bare server
	pending = "pending" // as refused, until it is built; its conversation is left out
)

// difference is a line of testdata/bytes-differ.txt or bytes-pending.txt.
type difference struct {
	kind    string
	targets []string
	why     string
}

// differences are all that are known, by the command as it is written. Each group of them
// has its kind, its targets and the reason above it:
//
//	ours single,cluster: the numbers are the proxy's
//		CLIENT ID
//
// What is pending goes before. A line that no longer differs fails the test.
type differences struct {
	of map[string][]difference

	mu       sync.Mutex
	compared map[string]bool // "target command": whether it has differed
}

func readDifferences(t *testing.T) *differences {
	t.Helper()
	d := &differences{of: map[string][]difference{}, compared: map[string]bool{}}
	for _, file := range []string{"testdata/bytes-pending.txt", "testdata/bytes-differ.txt"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d.read(t, string(text))
	}
	return d
}

func (d *differences) read(t *testing.T, text string) {
	t.Helper()
	var group difference
	for line := range strings.Lines(text) {
		command := strings.TrimSpace(line)
		switch {
		case command == "" || command[0] == '#':
		case line[0] == ' ' || line[0] == '\t':
			if group.kind == "" {
				t.Fatalf("%s: in no group", command)
			}
			d.of[command] = append(d.of[command], group)
		default:
			head, why, _ := strings.Cut(command, ": ")
			kind, targets, _ := strings.Cut(head, " ")
			if !slices.Contains([]string{varies, chance, ours, refused, pending}, kind) ||
				targets == "" || why == "" {
				t.Fatalf("no head of a group: %s", command)
			}
			group = difference{kind, strings.Split(targets, ","), why}
		}
	}
}

// kind is how the replies to a command may differ on a target, "" if they may not.
func (d *differences) kind(target, command string, same bool) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.compared[target+" "+command] = d.compared[target+" "+command] || !same
	return d.on(target, command).kind
}

// on is what is known of a command on a target.
func (d *differences) on(target, command string) difference {
	for _, f := range d.of[command] {
		if f.on(target) {
			return f
		}
	}
	return difference{}
}

func (f difference) on(target string) bool {
	return slices.Contains(f.targets, target) || slices.Contains(f.targets, "all")
}

// leave is a conversation without what is refused on a target, empty if something of it
// is pending.
func (d *differences) leave(target string, k talk) talk {
	left := talk{name: k.name}
	for _, l := range k.lines {
		switch d.on(target, l.text).kind {
		case pending:
			return talk{name: k.name}
		case refused:
		default:
			left.lines = append(left.lines, l)
		}
	}
	return left
}

// unsent are the commands that are not compared on a target, since the proxy refuses them.
func (d *differences) unsent(target string) (all [][]string) {
	for command := range d.of {
		if kind := d.on(target, command).kind; kind == refused || kind == pending {
			args, _ := rig.SplitArgs(command)
			all = append(all, args)
		}
	}
	return all
}

// refuses says whether the proxy refuses some call of a command, "container|sub".
func (d *differences) refuses(target, name string) bool {
	for _, args := range d.unsent(target) {
		if commandOf(args, name) {
			return true
		}
	}
	return false
}

// stale returns what stands in the table and differs no more, or is not said at all.
func (d *differences) stale(talks []talk) (wrong []string) {
	said := map[string]bool{}
	for _, k := range talks {
		for _, l := range k.lines {
			said[l.text] = true
		}
	}
	for command, all := range d.of {
		for _, f := range all {
			if !said[command] && f.kind != ours { // ours may be of a wrong number of arguments
				wrong = append(wrong, command+": differs, says the table, but no conversation has it")
			}
			for _, target := range bytesTargets {
				differed, compared := d.compared[target.name+" "+command]
				if f.kind == ours && f.on(target.name) && compared && !differed {
					wrong = append(wrong, command+": differs no more on "+target.name)
				}
			}
		}
	}
	return wrong
}

// judge compares replies on one target.
type judge struct {
	differs *differences
	target  string
}

// compare returns what differs and may not.
func (j *judge) compare(k talk, want, got [][]rig.Reply) (wrong []string) {
	for i, l := range k.lines {
		for n := range want[i] {
			w, g := want[i][n], got[i][n]
			same := bytes.Equal(w.Raw, g.Raw)
			switch kind := j.differs.kind(j.target, l.text, same); {
			case same, kind == ours:
			case kind == chance, kind == varies && shape(w) == shape(g):
			default:
				wrong = append(wrong, fmt.Sprintf("%s:\n got %.300q\nwant %.300q", l.text, g.Raw, w.Raw))
			}
		}
	}
	return wrong
}

// shape is a reply without what it says: its types, how many elements, an error's word.
func shape(v rig.Reply) string {
	if v.IsError() {
		word, _, _ := strings.Cut(v.Text, " ")
		return string(v.Kind) + word
	}
	s := string(v.Kind)
	if v.Null {
		s += "null"
	}
	for _, e := range v.Elems {
		s += shape(e)
	}
	return fmt.Sprintf("%s/%d ", s, len(v.Elems))
}

// The comparison notices what differs, and what in the table does not.
func TestBytesFail(t *testing.T) {
	d := &differences{of: map[string][]difference{}, compared: map[string]bool{}}
	d.read(t, "ours all: on purpose\n\tA\n\tB\n\tNEVER SAID\nvaries single: of chance\n\tC\n\tD\n\tNEVER "+
		"EITHER\npending cluster: later\n\tE\nrefused all: no\n\tF\n")
	lines := func(commands ...string) (k talk) {
		for _, c := range commands {
			k.lines = append(k.lines, talkLine{conn: "a", replies: 1, text: c})
		}
		return k
	}
	say := func(raws ...string) (all [][]rig.Reply) {
		for _, raw := range raws {
			v, err := rig.ReadReply(bufio.NewReader(strings.NewReader(raw)))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, []rig.Reply{v})
		}
		return all
	}
	j := &judge{differs: d, target: "single"}
	k := lines("A", "B", "C", "D", "E", "G")
	want := say("+a\r\n", "+b\r\n", ":1\r\n", "*1\r\n:1\r\n", "+e\r\n", "$1\r\ng\r\n")
	got := say("-a\r\n", "+b\r\n", ":2\r\n", "*2\r\n:1\r\n:1\r\n", "+f\r\n", "+g\r\n")
	if wrong := strings.Join(j.compare(k, want, got), " | "); strings.Count(wrong, "want") != 3 ||
		!strings.Contains(wrong, "D:") || !strings.Contains(wrong, "E:") || !strings.Contains(wrong, "G:") {
		t.Errorf("differs: %s", wrong)
	}
	stale := d.stale([]talk{k, lines("F")})
	slices.Sort(stale)
	if wants := []string{"B: differs no more on single",
		"NEVER EITHER: differs, says the table, but no conversation has it"}; !slices.Equal(stale, wants) {
		t.Errorf("stale: %q", stale)
	}
	if left := d.leave("single", lines("E", "F", "G")); len(left.lines) != 2 {
		t.Errorf("single holds %+v", left)
	}
	if left := d.leave("cluster", lines("E", "F", "G")); len(left.lines) != 0 {
		t.Errorf("cluster holds %+v", left)
	}
}
