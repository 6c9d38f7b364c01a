package keepalive

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

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
	return append(fmt.Appendf(nil, "*%d\r\n", n), bytes.Repeat([]byte(":30000\r\n"), n)...), nil
}

func (u *echo) Sharded() bool { return true }

func (u *echo) Subscribe(context.Context, int, string, func(subscription.Event)) (func(), error) {
	return func() {}, nil
}

// heapUse is what is in use, in bytes.
func heapUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// What 100,000 holds of 30 s cost the proxy: bytes, with their names and tokens, and time for a renewal. R18
func TestCostOfKeeping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100_000
		const rounds = 6 // thirds of the lease
		u := &echo{}
		names := redlock.NewNames("lock:")
		l := New(single.New(u, names, single.Options{}), names, Options{})
		before := heapUse()
		all := make([]*Kept, 0, n)
		for i := range n {
			all = append(all, l.Keep(Hold{
				Name: fmt.Sprintf("job:%08d", i), Token: redlock.NewToken(), Fence: int64(i), Lease: lease,
				Until:  time.Now().Add(lease),
				Keeper: names.ID + ":" + strconv.FormatInt(int64(i), 36),
				Lost:   func(Lost) {},
			}))
		}
		each := (heapUse() - before) / n
		began := cpuTime()
		time.Sleep(rounds * lease / 3)
		synctest.Wait()
		took := cpuTime() - began
		if u.renewals < n*(rounds-1) {
			t.Fatalf("%d renewals", u.renewals)
		}
		t.Logf("a hold: %d bytes. A renewal: %v, %.1f in a request. %d holds of %v: %.2f %% of a CPU", each,
			took/time.Duration(u.renewals), float64(u.renewals)/float64(u.requests), n, lease,
			100*took.Seconds()/(rounds*lease/3).Seconds())
		if each > 1000 {
			t.Errorf("a hold takes %d bytes", each)
		}
		if each := took / time.Duration(u.renewals); each > 200*time.Microsecond {
			t.Errorf("a renewal takes %v", each)
		}
		began = cpuTime()
		for _, h := range all {
			h.Forget()
		}
		t.Logf("to forget one: %v", (cpuTime()-began)/n)
		l.Close(t.Context())
		runtime.KeepAlive(all)
	})
}

// cpuTime is what the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
