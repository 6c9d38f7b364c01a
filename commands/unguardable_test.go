package commands_test

import (
	"strings"
	"testing"

	"lockproxy/commands"
	"lockproxy/redlock/locks"
)

// GUARD lets no channel and no pattern through that costs a node too much.
func TestWhatCostsTooMuchIsNotGuarded(t *testing.T) {
	words := strings.NewReplacer("LONG", strings.Repeat("x", commands.MaxChannel+1),
		"DEAR", "*"+strings.Repeat("c", commands.DearestPattern+1))
	withLocks(t, locks.Options{}, func(t *testing.T, session func() *client) {
		for line, refused := range map[string]bool{
			"PUBLISH LONG x": true, "PUBLISH x LONG": false,
			"HSCAN k 0 MATCH DEAR": true, "HSCAN k 0 MATCH a*": false,
		} {
			got := session().Do("GUARD job t " + words.Replace(line))
			if strings.Contains(got, "through lockproxy") != refused {
				t.Errorf("%s inside GUARD: %.100q", line, got)
			}
		}
	})
}
