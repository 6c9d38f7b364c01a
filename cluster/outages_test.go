package cluster

import (
	"errors"
	"sync"
	"testing"
)

// A master that stays in doubt is so at every moment, whatever else becomes known of it meanwhile: the
// control plane sleeps while nobody is in trouble.
func TestDoubtIsSeenAtEveryMoment(t *testing.T) {
	const times = 50_000
	o := new(Outages)
	o.Doubt("a:1", true)
	var all sync.WaitGroup
	all.Go(func() {
		for range times {
			o.Lose("a:1", errors.New("away"))
		}
	})
	for range times {
		if _, is := o.Doubted("a:1"); !is {
			t.Error("it is in no doubt")
			break
		}
	}
	all.Wait()
}
