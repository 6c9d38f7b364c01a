package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// everyArity is the arity of each command and subcommand in what COMMAND says.
func everyArity(table []rig.Reply) map[string]int {
	all := map[string]int{}
	for _, row := range table {
		all[row.Elems[0].Text] = int(row.Elems[1].Int())
		if len(row.Elems) > 9 {
			maps.Copy(all, everyArity(row.Elems[9].Elems))
		}
	}
	return all
}

// commandOf says whether args call the command, "container|sub".
func commandOf(args []string, name string) bool {
	words := strings.Split(name, "|")
	return len(args) >= len(words) && strings.EqualFold(strings.Join(args[:len(words)], "|"), name)
}

// wrongArity is a conversation of every command with one argument too few, and with one
// too many where there is such a thing.
func wrongArity(t *testing.T, target string, table map[string]int, differs *differences) talk {
	t.Helper()
	k := talk{name: "wrong number of arguments"}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		arity := table[name]
		words := strings.Split(name, "|")
		for _, n := range []int{max(arity, -arity) - 1, arity + 1} {
			if n < len(words) || differs.refuses(target, name) {
				continue
			}
			args := slices.Clone(words)
			for i := range n - len(words) {
				args = append(args, fmt.Sprint("x", i))
			}
			k.lines = append(k.lines,
				talkLine{conn: "a", replies: 1, args: args, text: strings.Join(args, " ")})
		}
	}
	if len(k.lines) < 300 {
		t.Errorf("%d calls with a wrong number of arguments", len(k.lines))
	}
	return k
}

// covers fails if a command is never said as it should be. Of commands that are younger
// than the conversations it only tells.
func covers(t *testing.T, bare string, table map[string]int, talks []talk) {
	t.Helper()
	v, err := rig.Ask(bare, "INFO", "server")
	if err != nil {
		t.Fatal(err)
	}
	miss := t.Errorf
	if version := rig.InfoField(v.Text, "redis_version"); !strings.HasPrefix(version, "7.0.") {
		miss = t.Logf
	}
	for name, arity := range table {
		said := slices.ContainsFunc(talks, func(k talk) bool {
			return slices.ContainsFunc(k.lines, func(l talkLine) bool {
				return commandOf(l.args, name) && (len(l.args) == arity || arity < 0 && len(l.args) >= -arity)
			})
		})
		if !said {
			miss("no conversation has a sensible call of %s", name)
		}
	}
}
