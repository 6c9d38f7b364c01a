package pubsub

import (
	"math/rand/v2"
	"testing"
)

// Who comes and goes while a message is being handed out changes nothing for the others: each of them gets it
// once, and who has come since then does not.
func TestListeners(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var a listeners
		got := make(map[*subscription]int)
		var there []*subscription
		for range random.IntN(20) {
			sub := &subscription{}
			a.putAt(sub, len(a.all))
			there = append(there, sub)
		}
		want := make(map[*subscription]bool) // to get it
		for _, sub := range there {
			want[sub] = true
		}
		for a.due = len(a.all); a.due > 0; {
			switch i := random.IntN(3); {
			case i == 0:
				sub := &subscription{}
				a.putAt(sub, len(a.all))
				there = append(there, sub)
			case i == 1:
				j := random.IntN(len(there))
				if got[there[j]] == 0 {
					delete(want, there[j])
				}
				a.takeOut(there[j])
				there = append(there[:j], there[j+1:]...)
			default:
				a.due--
				got[a.all[a.due]]++
			}
		}
		if len(a.all) != len(there) {
			t.Fatalf("seed %d: %d subscriptions, want %d", seed, len(a.all), len(there))
		}
		for i, sub := range a.all {
			if sub.at != i {
				t.Fatalf("seed %d: subscription %d says it is at %d", seed, i, sub.at)
			}
		}
		for sub := range want {
			if got[sub] != 1 {
				t.Fatalf("seed %d: a subscription got the message %d times", seed, got[sub])
			}
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d subscriptions got the message, %d were to", seed, len(got), len(want))
		}
	}
}
