package pubsub

import (
	"strings"
	"testing"

	"lockproxy/cluster"
	"lockproxy/cluster/pubsub"
)

// What is published concerns the subscriptions under way to its channel, to patterns that match it, and to
// too many names to look at, and none that has ended.
func TestUnderway(t *testing.T) {
	begin := func(u *Underway) []func() {
		return []func(){
			u.beginRequest(pubsub.Classic, []string{"a", "b"}),
			u.beginRequest(pubsub.Classic, []string{"b"}),
			u.beginRequest(pubsub.Pattern, []string{"x*", "a*"}),
			u.beginRequest(pubsub.Shard, []string{"a"}),
			u.beginRequest(pubsub.Classic, nil),
		}
	}
	var u Underway
	if n := len(u.concernedRequests([]byte("a"), false)) + len(u.allRequests()); n != 0 {
		t.Errorf("%d from the start", n)
	}
	ends := begin(&u)
	long := strings.Repeat("a", cluster.MaxShared+1)
	for _, c := range []struct {
		name  string
		shard bool
		want  [6]int // behind so many ends
	}{
		{"a", false, [6]int{3, 2, 2, 1, 1, 0}},
		{"b", false, [6]int{3, 2, 1, 1, 1, 0}},
		{"z", false, [6]int{1, 1, 1, 1, 1, 0}},
		{long, false, [6]int{2, 2, 2, 1, 1, 0}}, // a* and the many names
		{"a", true, [6]int{2, 2, 2, 2, 1, 0}},
		{"b", true, [6]int{1, 1, 1, 1, 1, 0}},
	} {
		u := Underway{}
		ends := begin(&u)
		for i, want := range c.want {
			if got := len(u.concernedRequests([]byte(c.name), c.shard)); got != want {
				t.Errorf("%.10s, shard %v, behind %d ends: %d, want %d", c.name, c.shard, i, got, want)
			}
			if i < len(ends) {
				ends[i]()
			}
		}
	}
	all := u.allRequests()
	if len(all) != len(ends) || u.Len() != len(ends) {
		t.Errorf("%d of %d", len(all), u.Len())
	}
	for _, end := range ends {
		end()
	}
	awaitRequests(all)
	if len(u.by)+u.Len() != 0 {
		t.Errorf("left: %+v", &u)
	}
}
