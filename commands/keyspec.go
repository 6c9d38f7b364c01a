package commands

import (
	"strconv"

	"lockproxy/internal/resp"
)

// KeySpec says where some of the keys of a command stand, as Redis 7 describes
// them (Redis documentation, "Command key specifications"). Positions count
// arguments; the command's name is 0. KeySpec{Begin: 1} is one key right behind
// the name.
type KeySpec struct {
	// The keys are looked for from argument Begin on. With a Keyword they are behind that word, which is
	// looked for from Begin to the end; from a negative Begin, backwards.
	Begin   int
	Keyword string

	// A plain range ends Last arguments further on. A negative Last counts from the end of the command. With
	// Limit above 1, only the first part of the rest holds keys: with 2 the first half, as behind STREAMS.
	Last  int
	Limit int

	// Counted: the argument at distance Count says how many keys there are; the
	// first is at distance First.
	Counted bool
	Count   int
	First   int

	Step int // from key to key; 0 means 1

	Incomplete bool     // there may be keys that it does not find
	Unknown    bool     // it finds none
	Flags      []string // of verbs: RO, RW, access, update, delete
}

// span is where the keys are: first, first+step ... up to last. ok is false when
// there are none, or when the arguments make no sense: Redis finds no keys
// then either.
func (k *KeySpec) span(args [][]byte) (first, last, step int, ok bool) {
	if k.Unknown {
		return 0, 0, 0, false
	}
	first, step = k.Begin, min(max(k.Step, 1), len(args)) // a larger one would overflow
	if k.Keyword != "" {
		if first = k.behindKeyword(args); first == 0 {
			return 0, 0, 0, false
		}
	}
	switch {
	case k.Counted:
		at := first + k.Count
		if at < 0 || at >= len(args) {
			return 0, 0, 0, false
		}
		// The client gives this number, so it is compared with what there is before it is multiplied.
		n, err := strconv.Atoi(string(args[at]))
		if err != nil || n <= 0 || n > len(args) {
			return 0, 0, 0, false
		}
		first += k.First
		last = first + (n-1)*step
	case k.Last >= 0:
		last = first + k.Last
	case k.Limit > 1:
		last = first + (len(args)-first)/k.Limit + k.Last
	default:
		last = len(args) + k.Last
	}
	return first, last, step, first > 0 && first <= last && last < len(args)
}

// behindKeyword is the position behind the keyword, 0 without one. Going forwards it leaves out the last
// argument, since no key could stand behind that.
func (k *KeySpec) behindKeyword(args [][]byte) int {
	i, end, step := k.Begin, len(args)-1, 1
	if i < 0 {
		i, end, step = len(args)+i, 1, -1
	}
	for ; i != end && i > 0 && i < len(args); i += step {
		if resp.IsWord(args[i], k.Keyword) {
			return i + 1
		}
	}
	return 0
}
