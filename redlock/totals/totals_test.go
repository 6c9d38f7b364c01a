package totals

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"lockproxy/redlock/locks"
	"lockproxy/redlock/peers"
)

func filled(n uint64) (s locks.Stats) {
	for c := range s {
		s[c] = n
	}
	return s
}

func answer(s locks.Stats) peers.Answer {
	return peers.Answer{From: "other", Body: Answer(func() locks.Stats { return s })(nil)}
}

// Every counter is told, under a name of its own, and added up.
func TestAdd(t *testing.T) {
	s := Sum{Stats: filled(1), Proxies: 1}
	s.addAnswer(answer(filled(2)))
	s.addAnswer(answer(filled(4)))
	if s.Stats != filled(7) || s.Proxies != 3 || len(s.Silent) > 0 {
		t.Errorf("%+v", s)
	}
	var names map[string]uint64
	json.Unmarshal(answer(filled(1)).Body, &names)
	if len(names) != len(locks.Counters) {
		t.Errorf("%d names for %d counters: %v", len(names), len(locks.Counters), names)
	}
	for name := range names {
		if name != strings.ToLower(name) || name == "" {
			t.Errorf("%q is no name", name)
		}
	}
}

// No number is so high, and no proxies are so many, that a sum is less than its parts. What this proxy does
// not know is left out, and what another does not know is 0 there.
func TestBounds(t *testing.T) {
	s := Sum{Stats: filled(most)}
	for range 1000 {
		s.addAnswer(answer(filled(math.MaxUint64)))
	}
	if s.Stats != filled(1001*most) {
		t.Errorf("%+v", s.Stats)
	}
	s = Sum{Stats: filled(3)}
	s.addAnswer(peers.Answer{Body: []byte(`{"lost.stolen":7,"new":1}`)})
	if s.Stats != filled(3) || s.Proxies != 1 {
		t.Errorf("%+v", s)
	}
}

// An answer that is none changes no number, and its proxy counts as silent.
func TestNoAnswers(t *testing.T) {
	for _, bad := range []string{"", "null", "[]", "{", `"x"`, `{"released":-1}`, `{"holds":-9}`,
		`{"released":1e300}`, `{"granted.write":5,"released":"1"}`, `{"lost":[1]}`,
		strings.Repeat("[", 20_000)} {
		s := Sum{Stats: filled(3), Proxies: 1}
		s.addAnswer(peers.Answer{From: "other", Body: []byte(bad)})
		if s.Stats != filled(3) || s.Proxies != 1 || len(s.Silent) != 1 {
			t.Errorf("%.40q: %+v", bad, s)
		}
	}
	if s := Ask(t.Context(), nil, filled(3)); s.Stats != filled(3) || s.Proxies != 1 {
		t.Errorf("alone: %+v", s)
	}
}
