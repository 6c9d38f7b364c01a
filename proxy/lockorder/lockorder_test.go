package lockorder

import (
	"strconv"
	"testing"
)

// What a later command waits for is the latest one about its lock, whoever noted it last. What is answered is
// forgotten, however long the client goes on.
func TestOrder(t *testing.T) {
	var o Order
	under := Unanswered{5, 9}
	o.Hold("job", 7, under)
	o.Hold("{job}", 6, under) // which goes on although 7 has come
	o.Hold("other", 8, under)
	for _, test := range []struct {
		name  string
		first uint32
		held  bool
	}{
		{"job", 7, true}, {"{job}", 7, true}, {"job", 8, false}, {"other", 8, true}, {"third", 5, false},
		{"", 8, true}, {"", 9, false},
	} {
		var name []byte
		if test.name != "" {
			name = []byte(test.name)
		}
		if got := o.IsHeld(name, Unanswered{test.first, 9}); got != test.held {
			t.Errorf("%q from %d on: %v", test.name, test.first, got)
		}
	}
	for n := range uint32(1000) {
		o.Hold(strconv.Itoa(int(n)), n, Unanswered{n, n + 1})
	}
	if n := len(o.last); n > fewHeld+3 {
		t.Errorf("%d locks are kept in mind", n)
	}
	if o.Tidy(Unanswered{9, 9}); o.IsHeld(nil, Unanswered{0, 1000}) {
		t.Error("a lock is held although nothing is under way")
	}
}
