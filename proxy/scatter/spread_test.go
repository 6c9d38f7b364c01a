package scatter

import (
	"slices"
	"strconv"
	"testing"

	"lockproxy/commands"
	"lockproxy/internal/slot"
)

// The parts for one master do not wait until those for the one before are sent.
func TestMastersGetLongCommandInTurn(t *testing.T) {
	args := [][]byte{[]byte("DEL")}
	for i := range 20_000 {
		args = append(args, []byte("{"+strconv.Itoa(i)+"}"+string(make([]byte, 100))))
	}
	del := &commands.Command{Row: commands.Row{Step: 1}}
	cut, _ := del.CutBySlot(args)
	owner := func(n int) int { return n*3/slot.Count - n%100/99 } // of a few slots of the first third nobody
	var owners []int
	seen := make(map[int32]bool)
	for _, place := range inTurn(cut, 3, owner) {
		if seen[place] {
			t.Fatalf("part %d twice", place)
		}
		seen[place] = true
		owners = append(owners, owner(cut.Slot(int(place))))
	}
	if len(owners) != cut.Len() {
		t.Fatalf("%d parts of %d", len(owners), cut.Len())
	}
	owners = slices.Compact(owners)
	if len(owners) < 8 || len(owners) > 20 || !slices.Equal(owners[:8], []int{-1, 0, 1, 2, 0, 1, 2, 0}) {
		t.Errorf("masters in turn: %v", owners)
	}
}
