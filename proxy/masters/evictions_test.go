package masters

import (
	"errors"
	"testing"
)

// The masters may be asked anew between two looks at what they have said.
func TestRefusalBesideNewAnswers(t *testing.T) {
	e := new(Evictions)
	e.any.Store(true)
	e.known.Store(&map[string]error{"a:1": nil})
	if err := e.Refusal(); err != nil {
		t.Error(err)
	}
	e.known.Store(&map[string]error{"a:1": errors.New("it evicts")})
	if e.Refusal() == nil {
		t.Error("a master that evicts is none")
	}
}
