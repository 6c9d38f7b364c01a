package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// scanned is an upstream of masters that have pages of keys, one lock a key.
type scanned struct {
	redlock.Upstream
	masters [][]string // pages: keys with blanks between them
	fail    int        // the master that cannot be asked; -1: none
	grows   bool       // another master joins meanwhile
	asked   []string
	state   []byte
}

func (s *scanned) Sharded() bool { return true }

func (s *scanned) DeleteIf() string { return "" }

func (s *scanned) Masters() int {
	if s.grows && len(s.asked) > 0 {
		return len(s.masters) + 1
	}
	return len(s.masters)
}

func (s *scanned) DoMaster(_ context.Context, i int, req []byte, resend bool) ([]byte, error) {
	v, _, _ := resp.Parse(req)
	var words []string
	for _, e := range v.Elems {
		words = append(words, e.Text())
	}
	s.asked = append(s.asked, fmt.Sprint(i, " ", strings.Join(words, " ")))
	if i == s.fail {
		return nil, errors.New("no such node")
	}
	page, next := 0, 0
	fmt.Sscan(words[1], &page)
	if page+1 < len(s.masters[i]) {
		next = page + 1
	}
	keys := strings.Fields(s.masters[i][page])
	reply := []byte(fmt.Sprintf("*2\r\n$1\r\n%d\r\n", next))
	return append(reply, resp.AppendCommandStrings(nil, keys...)...), nil
}

func (s *scanned) DoWhole(context.Context, int, []byte, bool) ([]byte, error) { return s.state, nil }

// A list is whole, or an error; it is short only when that is asked for.
func TestListIsWhole(t *testing.T) {
	mini := rig.NewMini(t)
	defer mini.Mini.Close()
	up := &rig.Upstream{S: mini}
	defer up.Close()
	held := New(up, Options{})
	a := held.NewAcquire(redlock.Acquire{Name: "job", Mode: redlock.Write})
	if _, ok, err := (&rig.Asker{L: held, Up: up}).Acquire(a); !ok {
		t.Fatal(err)
	}
	read := &rig.Noted{}
	held.Inspect(read, "job", "", func(redlock.State, error) []byte { return nil })
	state, err := up.Do(t.Context(), read.Slot, read.Req, true)
	if err != nil {
		t.Fatal(err)
	}
	masters := [][]string{{"lock:{d} lock:{b}", "", "lock:{b} lock:fence:{x} lock:no"},
		{"lock:{c}", "lock:{u}:a"}}
	for _, tt := range []struct {
		name  string
		u     scanned
		count int
		want  string // names, or the error
		asked int
	}{
		{"all", scanned{masters: masters, fail: -1}, 100, "[b c d {u}:a]", 5},
		{"two", scanned{masters: masters, fail: -1}, 2, "[b d]", 1},
		{"a node that is away", scanned{masters: masters, fail: 1}, 100, "no such node", 4},
		{"another master", scanned{masters: masters, fail: -1, grows: true}, 100,
			errMastersChanged.Error(), 5},
		{"no masters", scanned{fail: -1}, 100, errNoMasters.Error(), 0},
		{"trouble with a lock", scanned{masters: masters, fail: -1, state: []byte("-CLUSTERDOWN down\r\n")},
			100, "CLUSTERDOWN down", 1},
		{"keys of others",
			scanned{masters: masters, fail: -1, state: []byte("-LOCKTYPE no\r\n")}, 100, "[]", 5},
	} {
		u := tt.u
		if u.state == nil {
			u.state = state
		}
		l := New(&u, Options{})
		all, _, err := l.List(t.Context(), Listing{Match: "*", Count: tt.count})
		names := make([]string, 0)
		for _, one := range all {
			names = append(names, one.Name)
		}
		got := fmt.Sprint(names)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want || len(u.asked) != tt.asked {
			t.Errorf("%s: %s after %q, want %s", tt.name, got, u.asked, tt.want)
		}
	}
	u := scanned{masters: masters[:1], fail: -1, state: state}
	l := New(&u, Options{Prefix: "l*["})
	if _, _, err := l.List(t.Context(), Listing{Match: "a?", Count: 5}); err != nil {
		t.Error(err)
	}
	if want := `0 SCAN 0 MATCH l\*\[* COUNT 1000`; !slices.Contains(u.asked, want) {
		t.Errorf("%q was not asked, but %q", want, u.asked)
	}
}
