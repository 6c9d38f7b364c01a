package lock

import (
	"bytes"
	"strings"
	"testing"

	"lockproxy/commands"
	"lockproxy/commands/commandstest"
)

// GUARD lets no channel and no pattern through that costs a node too much.
func TestWhatCostsTooMuchIsNotGuarded(t *testing.T) {
	table := commandstest.Redis7(t)
	long := strings.Repeat("x", commands.MaxChannel+1)
	dear := "*" + strings.Repeat("c", commands.DearestPattern+1)
	for line, refused := range map[string]bool{
		"PUBLISH LONG x": true, "PUBLISH x LONG": false,
		"HSCAN k 0 MATCH DEAR": true, "HSCAN k 0 MATCH a*": false,
	} {
		args := bytes.Fields([]byte(strings.NewReplacer("LONG", long, "DEAR", dear).Replace(line)))
		c, _ := table.Resolve(args)
		if got := unguardable(c, args); (got != nil) != refused {
			t.Errorf("%s inside GUARD: %.100q", line, got)
		}
	}
}
