package owned

import (
	"errors"
	"testing"
)

// A client without a place is told why: others have them all, or it has its share.
func TestWhyNoPlace(t *testing.T) {
	o := NewPlaces(Options{Most: 40}, new(Totals))
	one := Party{Host: "10.0.0.1", User: "default"}
	if err := o.noPlace(one); err != ErrNoPlace {
		t.Errorf("%v", err)
	}
	o.shares.all, o.shares.has[one] = 39, 29
	const want = ": this address and user have 29 of them, as many as one client may while few are free"
	if err := o.noPlace(one); !errors.Is(err, ErrNoPlace) || err.Error() != ErrNoPlace.Error()+want {
		t.Errorf("%v", err)
	}
}
