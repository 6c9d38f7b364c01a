package lifecycle

import (
	"errors"
	"fmt"
	"testing"
)

// quiet is a Plane that has nothing against commands.
type quiet struct{ Plane }

func (quiet) Ready() error { return nil }

// Before the upstream is found /readyz says what went wrong with it.
func TestReadySaysWhatItWaitsFor(t *testing.T) {
	var s State
	for _, step := range []struct {
		do   func()
		want error
	}{
		{func() {}, errStarting},
		{func() { s.Waits(errors.New("nobody answers")) }, errors.New("starting: nobody answers")},
		{func() { s.Serve(quiet{}) }, nil},
	} {
		step.do()
		if err := s.Ready(); fmt.Sprint(err) != fmt.Sprint(step.want) {
			t.Errorf("%v, want %v", err, step.want)
		}
	}
}
