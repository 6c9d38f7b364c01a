package compat_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// library takes and frees the lock job as another library does, straight at Redis.
type library struct{ s *rig.Server }

const compareAndDelete = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) ` +
	`else return 0 end`

// lock says whether the library has got the lock, for a minute.
func (l library) lock(value string) bool { return l.lockFor(value, "60000") }

// lockFor says whether the library has got the lock, for so many milliseconds.
func (l library) lockFor(value, ms string) bool {
	return l.s.Ask("SET", "job", value, "NX", "PX", ms).Text() == "OK"
}

// unlock says whether the library has freed the lock.
func (l library) unlock(value string) bool {
	return l.s.Ask("EVAL", compareAndDelete, "1", "job", value).Int == 1
}

// start starts n proxies over s.
func start(t *testing.T, s *rig.Server, n int) (all []*proxies.Proxy) {
	for range n {
		up := &rig.Upstream{S: s}
		p := &proxies.Proxy{Locker: locks.NewCompat(up, locks.Options{}), Up: up, T: t}
		all = append(all, p)
		t.Cleanup(func() {
			p.Close(context.Background())
			up.Close()
		})
	}
	return all
}

// everywhere runs a test on a Redis in fake time and on a real one.
func everywhere(t *testing.T, test func(t *testing.T, l library)) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) { test(t, library{s}) })
}

// A library and a client of lockproxy exclude each other, and neither frees what the other holds. R5 R30
func TestExclusion(t *testing.T) {
	everywhere(t, func(t *testing.T, l library) {
		p := start(t, l.s, 2)
		mine := p[0].Lock(t.Context(), redlock.Acquire{Token: "t", Lease: time.Minute})
		if !mine.OK || mine.TTL != time.Minute || mine.Count != 1 || mine.Fence < 1 {
			t.Fatalf("%+v", mine)
		}
		if l.lock("x:1") || l.unlock("x:1") {
			t.Error("the library got a held lock")
		}
		again := p[1].Lock(t.Context(), redlock.Acquire{Token: "t", Lease: time.Second})
		if again.Fence != mine.Fence || again.TTL < 30*time.Second || !again.OK {
			t.Errorf("the same token again: %+v", again)
		}
		if other := p[1].Lock(t.Context(), redlock.Acquire{}); other.OK || other.Err != nil {
			t.Errorf("another token: %+v", other)
		}
		if n := p[1].Unlock("another"); n != -1 {
			t.Error("another token has freed it:", n)
		}
		if s := p[1].State(); len(s.Holders) != 1 || s.Held("t") == nil || s.Fence != mine.Fence ||
			s.Key != "job" {
			t.Errorf("%+v", s)
		}
		if n := p[1].Unlock("t"); n != 1 {
			t.Error("not freed:", n)
		}
		if n := p[1].Unlock("t"); n != -1 {
			t.Error("freed twice:", n)
		}
		if !l.lock("x:1") {
			t.Fatal("the library did not get a free lock")
		}
		if theirs := p[0].Lock(t.Context(), redlock.Acquire{Token: "t"}); theirs.OK || theirs.Err != nil {
			t.Errorf("%+v", theirs)
		}
		if n := p[0].Unlock("x:1"); n != -1 {
			t.Error("the hold of the library was freed:", n)
		}
		if s := p[0].State(); len(s.Holders) != 1 || s.Holders[0].TTL > time.Minute ||
			s.Holders[0].Fence != 0 || s.Held("x:1") != nil {
			t.Errorf("%+v", s)
		}
		if !l.unlock("x:1") {
			t.Error("the library could not free its hold")
		}
		if next := p[0].Lock(t.Context(), redlock.Acquire{}); next.Fence <= mine.Fence || !next.OK {
			t.Errorf("fence %d behind %d", next.Fence, mine.Fence)
		}
	})
}

// Who waits gets the lock when a library frees it, when the library's lease is over, and when another proxy
// frees it; those of one proxy in their order. R9 R25
func TestWaiting(t *testing.T) {
	everywhere(t, func(t *testing.T, l library) {
		p := start(t, l.s, 2)
		wait := redlock.Acquire{Wait: time.Minute, Lease: time.Minute}
		l.lock("x:1")
		first := p[0].Begin(t.Context(), wait)
		second := p[0].Begin(t.Context(), wait)
		proxies.Waiting(t, first, second)
		l.unlock("x:1")
		held := proxies.Granted(t, first)
		proxies.Waiting(t, second)
		p[1].Unlock(held.Token)
		held = proxies.Granted(t, second)
		p[0].Unlock(held.Token)
		l.lockFor("x:2", "1000") // and never frees it
		held = proxies.Granted(t, p[1].Begin(t.Context(), wait))
		if l.lock("x:3") {
			t.Error("two hold it")
		}
		p[1].Unlock(held.Token)
	})
}

// A wait in vain ends with Null, and leaves nothing.
func TestWaitInVain(t *testing.T) {
	everywhere(t, func(t *testing.T, l library) {
		p := start(t, l.s, 1)[0]
		l.lock("x:1")
		r := p.Lock(t.Context(), redlock.Acquire{Wait: 120 * time.Millisecond, Lease: time.Minute})
		if r.OK || r.Err != nil {
			t.Fatalf("%+v", r)
		}
		if !l.unlock("x:1") || !l.lock("x:2") {
			t.Error("something is left")
		}
	})
}

// A key of another type is refused by name, and stays.
func TestOtherTypes(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := start(t, s, 1)[0]
		s.Ask("HSET", "job", "x:1", "1")
		r := p.Lock(t.Context(), redlock.Acquire{Token: "t", Wait: time.Second})
		if r.Err == nil || !redlock.Refused(r.Err) {
			t.Errorf("%+v", r)
		}
		if _, err := p.Client().Breaks("job"); err == nil || s.Ask("EXISTS", "job").Int != 1 {
			t.Errorf("BREAK: %v", err)
		}
	})
}

// BREAK ends anybody's hold, and the proxy that kept it alive is told. R23
func TestBreak(t *testing.T) {
	everywhere(t, func(t *testing.T, l library) {
		p := start(t, l.s, 2)
		l.lock("x:1")
		if broken, err := p[0].Client().Breaks("job"); !broken || err != nil {
			t.Fatal(broken, err)
		}
		lost := make(chan keepalive.Loss, 1)
		keep(t, p[0], lost)
		for len(l.s.Ask("PUBSUB", "CHANNELS", "lock:keeper:"+p[0].ID()).Elems) == 0 {
			time.Sleep(time.Millisecond) // it does not listen yet
		}
		if broken, err := p[1].Client().Breaks("job"); !broken || err != nil {
			t.Fatal(broken, err)
		}
		if why := <-lost; why != keepalive.Broken {
			t.Error(why)
		}
		if broken, err := p[1].Client().Breaks("job"); broken || err != nil {
			t.Error(broken, err)
		}
	})
}

// LOCK with BREAK takes the lock over from a library, and from who keeps it alive. R23
func TestTakeOver(t *testing.T) {
	everywhere(t, func(t *testing.T, l library) {
		p := start(t, l.s, 2)
		take := func(by *proxies.Proxy, token string, broke bool) {
			t.Helper()
			a := by.NewAcquire(redlock.Acquire{
				Name: "job", Mode: redlock.Write, Token: token, Lease: time.Minute, Break: true})
			if g, ok, err := by.Client().Acquire(a); !ok || err != nil || a.Broke != broke || g.Fence == 0 {
				t.Fatalf("%s: %+v %v %v, broke %v", token, g, ok, err, a.Broke)
			}
		}
		l.lock("x:1")
		take(p[0], "a", true)
		take(p[1], "a", false)
		if n := p[0].Unlock("a"); n != 1 {
			t.Error(n)
		}
		lost := make(chan keepalive.Loss, 1)
		keep(t, p[0], lost)
		for len(l.s.Ask("PUBSUB", "CHANNELS", "lock:keeper:"+p[0].ID()).Elems) == 0 {
			time.Sleep(time.Millisecond) // it does not listen yet
		}
		take(p[1], "b", true)
		if why := <-lost; why != keepalive.Broken {
			t.Error(why)
		}
		if n := p[0].Unlock("b"); n != 1 {
			t.Error(n)
		}
		take(p[1], "c", false)
	})
}

// movingSlot is an upstream whose slot moves all the time.
type movingSlot struct{ *rig.Upstream }

func (movingSlot) Parted(int) time.Time { return time.Now() }

// loading is a movingSlot whose node is loading its data when it is asked who has the lock.
type loading struct {
	movingSlot
	asked *int
}

func (l loading) DoWhole(ctx context.Context, slot int, req []byte, resend bool) ([]byte, error) {
	if *l.asked++; *l.asked == 2 {
		return []byte("-LOADING Redis is loading the dataset in memory\r\n"), nil
	}
	return l.movingSlot.DoWhole(ctx, slot, req, resend)
}

// A grant is taken back of which a waiter could not see whether it stands.
func TestGrantInDoubtIsTakenBack(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		up := &rig.Upstream{S: s}
		p := &proxies.Proxy{
			Locker: locks.NewCompat(loading{movingSlot{up}, new(int)}, locks.Options{}), Up: up, T: t}
		a := p.NewAcquire(redlock.Acquire{
			Name: "job", Mode: redlock.Write, Token: "a", Lease: time.Minute, Wait: time.Minute})
		if g, ok, err := p.Wait(t.Context(), a); ok || err == nil {
			t.Errorf("%+v %v", g, err)
		}
		time.Sleep(time.Second)
		s.Empty(t)
		p.Close(context.Background())
		up.Close()
	})
}

// When a take-over is gone before its proxy has seen that it stands, the lock is asked for once more. Who has
// it by then keeps it. R8 R33
func TestTakeOverTakesOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, l library) {
		for _, others := range []bool{false, true} {
			l.s.Ask("DEL", "job")
			l.lock("x:1")
			up := &rig.Upstream{S: l.s}
			asked, gone := 0, false
			up.Faults = func(string) (before, after error) {
				if asked++; asked == 2 { // it looks whether it stands
					gone = true
					l.s.Ask("DEL", "job")
					if others {
						l.lock("x:2")
					}
				}
				return nil, nil
			}
			p := &proxies.Proxy{
				Locker: locks.NewCompat(movingSlot{up}, locks.Options{}), Up: up, T: t}
			a := p.NewAcquire(redlock.Acquire{
				Name: "job", Mode: redlock.Write, Token: "a", Lease: time.Minute, Break: true})
			_, ok, err := p.Client().Acquire(a)
			if ok == others || others != (err == redlock.ErrTookOver) || !a.Broke || !gone {
				t.Errorf("others have it: %v: %v %v, broke %v, gone %v", others, ok, err, a.Broke, gone)
			}
			if others && !l.unlock("x:2") {
				t.Error("the lock was taken from others, too")
			}
			p.Close(context.Background())
			up.Close()
		}
	})
}

// keptLease is long enough for renewals on a machine that stands still now and then.
const keptLease = 9 * time.Second

// keep takes the lock and keeps it alive.
func keep(t *testing.T, p *proxies.Proxy, lost chan keepalive.Loss) *keepalive.Kept {
	a := p.NewAcquire(redlock.Acquire{Name: "job", Token: "t", Mode: redlock.Write,
		Lease: keptLease, Keep: true})
	sent := time.Now()
	g, ok, err := p.Client().Acquire(a)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	return p.Keep(keepalive.Hold{Name: "job", Token: "t", Fence: g.Fence, Lease: a.Lease,
		Until: sent.Add(g.TTL), Keeper: a.Keeper, Lost: func(how keepalive.Lost) { lost <- how.Why }})
}

// A hold that is kept alive outlasts its lease by far; it is freed when its connection ends; and another
// proxy can take it over. R18 R19
func TestKept(t *testing.T) {
	everywhere(t, func(t *testing.T, l library) {
		p := start(t, l.s, 2)
		lost := make(chan keepalive.Loss, 1)
		held := keep(t, p[0], lost)
		for range 10 {
			if l.s.Mini != nil { // otherwise it would take real time
				time.Sleep(keptLease / 3)
			}
			if l.lock("x:1") {
				t.Fatal("a kept hold is over")
			}
		}
		taken, err := p[1].Client().Renew(&redlock.Renew{Name: "job", Token: "t", Lease: time.Minute,
			Keeper: p[1].NewKeeper()})
		if err != nil || taken.Left != time.Minute || taken.Fence == 0 {
			t.Fatal(taken, err)
		}
		held.Release() // it has another keeper now
		time.Sleep(30 * time.Millisecond)
		if l.lock("x:1") || len(lost) > 0 {
			t.Fatal("the hold ended with the connection that has it no more")
		}
		p[0].Unlock("t")
		held = keep(t, p[0], lost)
		held.Release()
		for i := 0; !l.lock("x:1"); i++ {
			time.Sleep(10 * time.Millisecond)
			if i > int(rig.Patience/(10*time.Millisecond)) {
				t.Fatal("a hold is there after its connection")
			}
		}
	})
}

// What is taken back is what that request has made, and not what the token held before or took since. R33
func TestUndo(t *testing.T) {
	everywhere(t, func(t *testing.T, l library) {
		p := start(t, l.s, 1)[0]
		acquire := func() *redlock.Acquire {
			a := p.NewAcquire(redlock.Acquire{Name: "job", Token: "t", Mode: redlock.Write,
				Lease: time.Minute})
			if _, ok, err := p.Client().Acquire(a); !ok || err != nil {
				t.Fatal(ok, err)
			}
			return a
		}
		undone := func(a *redlock.Acquire, looks int) bool {
			p.Undo(a)
			for range looks {
				if s := p.State(); s.Held("t") == nil {
					return true
				}
				time.Sleep(10 * time.Millisecond)
			}
			return false
		}
		first := acquire()
		second := acquire()
		if undone(first, 20) || undone(second, 20) {
			t.Error("a hold that another request relies on was taken back")
		}
		p.Unlock("t")
		if !undone(acquire(), int(rig.Patience/(10*time.Millisecond))) {
			t.Error("nothing was taken back")
		}
	})
}
