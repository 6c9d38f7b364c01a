package commands

import "testing"

// A step that no command has finds no key beyond the arguments.
func TestKeysOfAHugeStep(t *testing.T) {
	for _, step := range []int{1<<63 - 1, 1<<63 - 2} {
		c := &Command{Keys: []KeySpec{{Begin: 1, Last: 1, Step: step}}}
		args := [][]byte{[]byte("X"), []byte("a"), []byte("b"), []byte("c")}
		if at := c.KeyIndexes(args); len(at) != 1 || at[0] != 1 {
			t.Errorf("keys at %v", at)
		}
		c.Slot(args)
	}
}
