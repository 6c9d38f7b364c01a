package totals

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/peers"
)

// fill sets all numbers of v, and returns how many there are.
func fill(v reflect.Value, n uint64) (numbers int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			numbers += fill(v.Field(i), n)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[keepalive.Loss]uint64{keepalive.Broken: n}))
		numbers++
	case reflect.Int:
		v.SetInt(int64(min(n, math.MaxInt64)))
		numbers++
	default:
		v.SetUint(n)
		numbers++
	}
	return numbers
}

func filled(n uint64) (s locks.Stats) {
	fill(reflect.ValueOf(&s).Elem(), n)
	return s
}

func answer(s locks.Stats) peers.Answer {
	return peers.Answer{From: "other", Body: Answer(func() locks.Stats { return s })(nil)}
}

// Every counter is told, under a name of its own, and added up.
func TestAdd(t *testing.T) {
	s := Sum{Stats: filled(1), Proxies: 1}
	s.add(answer(filled(2)))
	s.add(answer(filled(4)))
	if want := filled(7); !reflect.DeepEqual(s.Stats, want) || s.Proxies != 3 || len(s.Silent) > 0 {
		t.Errorf("%+v, want %+v", s, want)
	}
	var names map[string]any
	json.Unmarshal(answer(filled(1)).Body, &names)
	n := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[locks.Stats]()) {
		if !f.Anonymous {
			n++
		}
	}
	if len(names) != n {
		t.Errorf("%d names for %d fields: %v", len(names), n, names)
	}
	for name := range names {
		if name != strings.ToLower(name) {
			t.Errorf("%q is the name of a field, and may change", name)
		}
	}
}

// No number is so high, and no proxies are so many, that a sum is less than its parts.
func TestClip(t *testing.T) {
	s := Sum{Stats: filled(most)}
	for range 1000 {
		s.add(answer(filled(math.MaxUint64)))
	}
	if want := filled(1001 * most); !reflect.DeepEqual(s.Stats, want) {
		t.Errorf("%+v, want %+v", s.Stats, want)
	}
	s = Sum{Stats: filled(3)}
	s.add(peers.Answer{Body: []byte(`{"holds":-9,"waiters":-9,"lingering":-9,"lost":{"stolen":7},"new":1}`)})
	if want := filled(3); !reflect.DeepEqual(s.Stats, want) || s.Proxies != 1 {
		t.Errorf("%+v, want %+v", s, want)
	}
}

// An answer that is none changes no number, and its proxy counts as silent.
func TestNoAnswers(t *testing.T) {
	for _, bad := range []string{"", "null", "[]", "{", `"x"`, `{"released":-1}`, `{"released":1e300}`,
		`{"granted":{"write":5},"released":"1"}`, `{"lost":[1]}`, strings.Repeat("[", 20_000)} {
		s := Sum{Stats: filled(3), Proxies: 1}
		s.add(peers.Answer{From: "other", Body: []byte(bad)})
		if !reflect.DeepEqual(s.Stats, filled(3)) || s.Proxies != 1 || len(s.Silent) != 1 {
			t.Errorf("%.40q: %+v", bad, s)
		}
	}
	if s := Ask(t.Context(), nil, filled(3)); !reflect.DeepEqual(s.Stats, filled(3)) || s.Proxies != 1 {
		t.Errorf("alone: %+v", s)
	}
}
