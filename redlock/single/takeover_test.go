package single

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// breaking is a client, and the upstream that it reaches, which gives these replies one after the other.
type breaking struct {
	redlock.Caller
	rig.Nothing
	replies []string
	sent    []string // the scripts, with a + if they may be sent again
	ids     []string // of the requests
	a       *redlock.Acquire
	ok      bool
	err     error
	parted  time.Time // when the slot was last seen to move
}

func (b *breaking) Parted(int) time.Time { return b.parted }

func (b *breaking) next(req []byte, resend bool) (reply []byte, err error) {
	name := rig.ScriptOf(req)
	if resend {
		name += "+"
	}
	b.sent, b.ids = append(b.sent, name), append(b.ids, b.a.ID)
	if len(b.replies) == 0 {
		return nil, errors.New("lost")
	}
	reply, b.replies = []byte(b.replies[0]), b.replies[1:]
	return reply, nil
}

func (b *breaking) Do(_ context.Context, _ int, req []byte, resend bool) ([]byte, error) {
	return b.next(req, resend)
}

func (*breaking) Buffer() []byte { return nil }

func (b *breaking) SendHome(_ int, req []byte, resend bool, to redlock.Exchange, _ redlock.Delivery) {
	reply, err := b.next(req, resend)
	if err != nil {
		reply = []byte("-ERR unknown\r\n")
	}
	to.Answer(reply)
}

func (*breaking) Hold(string) {}

func (*breaking) Await(start func(func([]byte)), then func([]byte) []byte, _ redlock.Delivery) {
	done := make(chan struct{}, 1)
	start(func([]byte) { done <- struct{}{} })
	<-done
	then(nil)
}

func (b *breaking) Acquired(_ redlock.Grant, ok bool, err error) []byte {
	b.ok, b.err = ok, err
	return nil
}

func (*breaking) Lost()    {}
func (*breaking) Arrived() {}

// broke is a grant that has ended holds of others.
const broke = "*5\r\n$33\r\n#0123456789abcdef0123456789abcdef\r\n:1795446905801293\r\n:1000\r\n:1\r\n:1\r\n"

// takeOver has a LOCK with BREAK get these replies.
func takeOver(t *testing.T, parted time.Time, replies ...string) *breaking {
	names := redlock.NewNames("lock:")
	b := &breaking{replies: replies, parted: parted}
	e := New(b, names, Options{})
	defer e.Close(t.Context())
	b.a = &redlock.Acquire{
		Name: "job", Token: "t", Mode: redlock.Write, Lease: time.Second, Break: true,
	}
	b.a.ID = names.NewID(b.a)
	e.Acquire(b, b.a, b)
	return b
}

// A LOCK that may wait is one waiter until its outcome is known, though it is asked for again meanwhile: the
// lock is handed to it by the id and the deadline that it had first.
func TestWaiterStaysOne(t *testing.T) {
	queued := "*3\r\n:1\r\n:1000\r\n$0\r\n\r\n"
	for _, first := range []string{":-3\r\n", granted} { // the grant is of a copy that nobody else sees
		names := redlock.NewNames("lock:")
		b := &breaking{replies: []string{first, queued}, parted: time.Now().Add(time.Hour)}
		e := New(b, names, Options{})
		b.a = &redlock.Acquire{
			Name: "job", Token: "t", Mode: redlock.Permit, Permits: 2, Lease: time.Second, Wait: time.Minute,
		}
		b.a.ID = names.NewID(b.a)
		until := e.waiters.Expect(b.a, time.Now().Add(-time.Second))
		e.Acquire(b, b.a, b)
		if b.ok || b.err != nil || len(b.ids) != 2 || b.ids[0] != b.ids[1] {
			t.Errorf("%q: %v %v, as %q", first, b.ok, b.err, b.ids)
		}
		if now := e.waiters.Expect(b.a, time.Now()); !now.Equal(until) {
			t.Errorf("%q: it waits %v longer", first, now.Sub(until))
		}
		e.waiters.Forget(b.a)
		e.Close(t.Context())
	}
}

// A LOCK with BREAK is sent once: a copy could end the hold of the next one. When some holds have ended, or
// when its proxy has been granted the lock since, it goes on as a new request. R8 R33
func TestTakeOverIsSentOnce(t *testing.T) {
	for _, tt := range []struct {
		name    string
		replies []string
		ok      bool
		broke   bool
		times   int
	}{
		{"granted", []string{granted}, true, false, 1},
		{"granted in place of others", []string{broke}, true, true, 1},
		{"in steps", []string{":-2\r\n", ":-2\r\n", granted}, true, true, 3},
		{"overtaken", []string{":-1\r\n", granted}, true, false, 2},
		{"of unknown outcome", nil, false, false, 1},
		{"in steps, then of unknown outcome", []string{":-2\r\n"}, false, true, 2},
	} {
		b := takeOver(t, time.Time{}, tt.replies...)
		if b.ok != tt.ok || (b.err == nil) != tt.ok || b.a.Broke != tt.broke {
			t.Errorf("%s: %v %v, broke %v", tt.name, b.ok, b.err, b.a.Broke)
		}
		if want := slices.Repeat([]string{"acquire"}, tt.times); !slices.Equal(b.sent, want) {
			t.Errorf("%s: sent %v", tt.name, b.sent)
		}
		if ids := slices.Compact(slices.Clone(b.ids)); len(ids) != tt.times {
			t.Errorf("%s: the ids %v", tt.name, b.ids)
		}
	}
}

// A grant that may have strayed is asked for once more. Who has the lock by then has it since the lease was
// over, and keeps it: a second take-over would end a hold that nobody meant. R8 R33
func TestTakeOverTakesOnce(t *testing.T) {
	for _, tt := range []struct {
		last string
		ok   bool
		err  error
	}{
		{granted, true, nil}, {"$-1\r\n", false, redlock.ErrTookOver},
	} {
		b := takeOver(t, time.Now().Add(time.Hour), broke, tt.last)
		if b.ok != tt.ok || b.err != tt.err || !b.a.Broke || b.a.Breaks() {
			t.Errorf("%q: %v %v, broke %v, breaks %v", tt.last, b.ok, b.err, b.a.Broke, b.a.Breaks())
		}
		if want := []string{"acquire", "acquire+"}; len(b.sent) < 2 || !slices.Equal(b.sent[:2], want) {
			t.Errorf("%q: sent %v", tt.last, b.sent)
		}
	}
}
