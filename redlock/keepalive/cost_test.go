package keepalive

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	slots "lockproxy/internal/slot"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/single"
)

// echo is an upstream that renews whatever it is asked to, at once.
type echo struct {
	rig.Nothing        // nobody asks replicas
	mu                 sync.Mutex
	requests, renewals int
}

func (u *echo) Do(_ context.Context, _ int, req []byte, _ bool) ([]byte, error) {
	// *args $7 EVALSHA $40 sha $len keys ...
	n, _ := strconv.Atoi(string(bytes.SplitN(req, []byte("\r\n"), 8)[6]))
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests++
	u.renewals += n
	return append(fmt.Appendf(nil, "*%d\r\n", n+1), bytes.Repeat([]byte(":30000\r\n"), n+1)...), nil
}

func (u *echo) Sharded() bool { return true }

func (u *echo) Subscribe(int, string, func(subscription.Change)) func() { return func() {} }

// heapUse is what is in use, in bytes.
func heapUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// keepMany has a proxy keep n holds alive over u, six in a slot: so many have 100,000 of any names.
func keepMany(u *echo, n int) (l *Renewer, all []*Kept) {
	names := redlock.NewNames("lock:")
	l = New(single.New(u, names, single.Options{}), names, Options{})
	for i := range n {
		all = append(all, l.Keep(Hold{
			Name: fmt.Sprintf("{%d}:%06d", i/6, i), Token: redlock.NewToken(), Fence: int64(i), Lease: lease,
			Until:  time.Now().Add(lease),
			Keeper: names.ID + ":" + strconv.FormatInt(int64(i), 36),
			Lost:   func(Lost) {},
		}))
	}
	return l, all
}

// rounds is for how many thirds of the lease the holds are kept.
const rounds = 6

// What holds of 30 s cost the proxy: bytes, with their names and tokens, and allocations for a renewal. R18
func TestCostOfKeeping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2000
		u := &echo{}
		before := heapUse()
		l, all := keepMany(u, n)
		each := (heapUse() - before) / n
		slots.Tag(0) // makes the table of all tags
		made := allocations()
		time.Sleep(rounds * lease / 3)
		synctest.Wait()
		made = allocations() - made
		if u.renewals < n*(rounds-1) {
			t.Fatalf("%d renewals", u.renewals)
		}
		perRenewal := made / uint64(u.renewals)
		t.Logf("a hold: %d bytes. A renewal: %d allocations, %.1f in a request", each, perRenewal,
			float64(u.renewals)/float64(u.requests))
		if each > 1000 {
			t.Errorf("a hold takes %d bytes", each)
		}
		if perRenewal > 10 {
			t.Errorf("a renewal takes %d allocations", perRenewal)
		}
		for _, h := range all {
			h.Forget()
		}
		l.Close(t.Context())
		runtime.KeepAlive(all)
	})
}

// allocations is how many there have been.
func allocations() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
