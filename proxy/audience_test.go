package proxy

import (
	"math/rand/v2"
	"testing"
)

// Who comes and goes while a message is being handed out changes nothing for the others: each of them gets it
// once, and who has come since then does not.
func TestAudience(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var a audience
		got := make(map[*seat]int)
		var there []*seat
		for range random.IntN(20) {
			se := &seat{}
			a.put(se, len(a.seats))
			there = append(there, se)
		}
		want := make(map[*seat]bool) // to get it
		for _, se := range there {
			want[se] = true
		}
		for a.due = len(a.seats); a.due > 0; {
			switch i := random.IntN(3); {
			case i == 0:
				se := &seat{}
				a.put(se, len(a.seats))
				there = append(there, se)
			case i == 1:
				j := random.IntN(len(there))
				if got[there[j]] == 0 {
					delete(want, there[j])
				}
				a.remove(there[j])
				there = append(there[:j], there[j+1:]...)
			default:
				a.due--
				got[a.seats[a.due]]++
			}
		}
		if len(a.seats) != len(there) {
			t.Fatalf("seed %d: %d seats, want %d", seed, len(a.seats), len(there))
		}
		for i, se := range a.seats {
			if se.at != i {
				t.Fatalf("seed %d: seat %d says it is at %d", seed, i, se.at)
			}
		}
		for se := range want {
			if got[se] != 1 {
				t.Fatalf("seed %d: a seat got the message %d times", seed, got[se])
			}
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d seats got the message, %d were to", seed, len(got), len(want))
		}
	}
}
