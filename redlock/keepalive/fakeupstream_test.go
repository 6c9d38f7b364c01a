package keepalive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/single"
)

// fakeUpstream is an upstream that does what keep and detach do, on holds in memory, and notes it.
type fakeUpstream struct {
	rig.Nothing // nobody asks replicas
	mu          sync.Mutex
	latency     time.Duration
	lag         time.Duration // of replies, after the request has run
	down        error         // of Do
	lose        error         // of Do, after the request has run
	hang        bool          // Do waits for its context
	there       string        // key about which it does not
	slow        bool          // it was too slow once for one batch of a slot at a time
	refuse      int           // scripts on more keys than this are refused with TRYAGAIN; 0: none is
	holds       map[string]*entry
	batches     []int                  // keys of each keep
	under       map[int]int            // requests under way, by slot
	all         int                    // that are under way
	most        int                    // that were under way at a time
	detaches    int                    // attempts
	renewed     map[string][]time.Time // by key
	asked       map[string]int         // with lease 0
	notify      func(subscription.Change)
	channel     string
	subs        int
}

// entry is a hold in Redis.
type entry struct {
	token, keeper string
	fence         int64
	until         time.Time
}

var errDown = errors.New("the node is down")

func newFakeUpstream() *fakeUpstream {
	return &fakeUpstream{holds: map[string]*entry{}, under: map[int]int{}, renewed: map[string][]time.Time{},
		asked: map[string]int{}}
}

func (u *fakeUpstream) Sharded() bool { return true }

func (u *fakeUpstream) Do(ctx context.Context, slot int, req []byte, resend bool) ([]byte, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.under[slot]++
	u.slow = u.slow || u.hang || u.latency+u.lag >= leastPatience
	if n := u.under[slot]; n > 1 && bytes.Contains(req, []byte("\r\nkeeper\r\n")) && !u.slow {
		panic("two batches of one slot under way")
	} else if n > hearing {
		panic("more batches of one slot under way than anybody listens to")
	}
	u.all++
	u.most = max(u.most, u.all)
	defer func() { u.under[slot]--; u.all-- }()
	if u.hang && (u.there == "" || !bytes.Contains(req, []byte(u.there))) {
		u.mu.Unlock()
		<-ctx.Done()
		u.mu.Lock()
		return nil, context.Cause(ctx)
	}
	if latency := u.latency; latency > 0 {
		u.mu.Unlock()
		time.Sleep(latency)
		u.mu.Lock()
	}
	v, _, err := resp.Parse(req)
	if err != nil || !resend {
		panic(fmt.Sprint(err, resend))
	}
	n := int(rig.Integer(v.Elems[2].Text()))
	keys, args := v.Elems[3:3+n], v.Elems[3+n:]
	script := rig.ScriptOf(req)
	if script == "renew" {
		script, args = args[0].Text(), args[2:]
	}
	if script == "keeper" {
		u.batches = append(u.batches, n)
	} else {
		u.detaches++
	}
	if u.down != nil {
		return nil, u.down
	}
	if u.refuse > 0 && n > u.refuse {
		return []byte("-TRYAGAIN Multiple keys request during rehashing of slot\r\n"), u.lose
	}
	var reply []byte
	switch script {
	case "keeper":
		reply = fmt.Appendf(reply, "*%d\r\n", n+1)
		for i, key := range keys {
			a := args[4*i:]
			reply = fmt.Appendf(reply, ":%d\r\n",
				u.renew(key.Text(), a[0].Text(), time.Duration(rig.Integer(a[1].Text()))*time.Millisecond,
					rig.Integer(a[2].Text()), a[3].Text()))
		}
	case "release":
		e := u.live(keys[0].Text())
		if e == nil || redlock.OwnerOf(e.token) != args[0].Text() || e.keeper != args[2].Text() {
			reply = []byte(":0\r\n")
			break
		}
		delete(u.holds, keys[0].Text())
		reply = []byte(":1\r\n")
	default:
		panic(script)
	}
	if script != "release" {
		reply = append(reply, ":1\r\n"...) // the clock
	}
	if lag := u.lag; lag > 0 {
		u.mu.Unlock()
		time.Sleep(lag)
		u.mu.Lock()
	}
	return reply, u.lose
}

func (u *fakeUpstream) live(key string) *entry {
	if e := u.holds[key]; e != nil && time.Now().Before(e.until) {
		return e
	}
	return nil
}

// proxyOf is the proxy of a keeper.
func proxyOf(keeper string) string {
	proxy, _, _ := strings.Cut(keeper, ":")
	return proxy
}

func (u *fakeUpstream) renew(key, token string, lease time.Duration, fence int64, keeper string) int64 {
	e := u.live(key)
	if e == nil || redlock.OwnerOf(e.token) != token {
		return 0
	}
	if proxyOf(e.keeper) != proxyOf(keeper) || e.fence != fence {
		return -1
	}
	if lease == 0 {
		u.asked[key]++
	} else {
		u.renewed[key] = append(u.renewed[key], time.Now())
	}
	if until := time.Now().Add(lease); until.After(e.until) {
		e.until = until
	}
	return time.Until(e.until).Milliseconds()
}

func (u *fakeUpstream) Subscribe(
	slot int, channel string, notify func(subscription.Change),
) (cancel func()) {
	if slot != -1 {
		panic("no classic channel")
	}
	u.set(func() {
		u.subs++
		u.notify, u.channel = notify, channel
	})
	notify(subscription.Change{Kind: subscription.Live})
	return func() { u.set(func() { u.notify = nil }) }
}

// publish has the keeper's Locker hear a message.
func (u *fakeUpstream) publish(message string) {
	synctest.Wait() // until it is subscribed
	u.mu.Lock()
	notify := u.notify
	u.mu.Unlock()
	notify(subscription.Change{Kind: subscription.Message, Payload: []byte(message)})
}

func (u *fakeUpstream) set(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f()
}

// get reads something of u.
func get[T any](u *fakeUpstream, f func() T) T {
	u.mu.Lock()
	defer u.mu.Unlock()
	return f()
}

// count reads one of u's counters.
func (u *fakeUpstream) count(n *int) int { return get(u, func() int { return *n }) }

// requests is how many batches there were.
func (u *fakeUpstream) requests() int { return get(u, func() int { return len(u.batches) }) }

// keeper keeps holds of a fake upstream alive.
type keeper struct {
	*Renewer
	t  testing.TB
	up *fakeUpstream
	n  int

	mu   sync.Mutex
	lost []string // "name loss", in the order in which they came
	when []time.Time
}

// newKeeper starts a keeper; at the end of the test nothing may be left of it.
func newKeeper(t testing.TB, o ...Options) *keeper {
	up, names := newFakeUpstream(), redlock.NewNames("lock:")
	options := append(o, Options{Lease: lease, Most: 1000, Log: slog.New(slog.DiscardHandler)})[0]
	options.Log = slog.New(slog.DiscardHandler)
	p := &keeper{
		Renewer: New(single.New(up, names, single.Options{Log: options.Log}), names, options), t: t, up: up,
	}
	t.Cleanup(func() {
		p.Close(t.Context())
		k := p.Renewer
		k.mu.Lock()
		defer k.mu.Unlock()
		n := len(k.slots) + len(k.agenda) + len(k.queues) + len(k.leaving.holds) +
			k.leaving.freers + len(k.holds) + len(k.keepers) + len(k.lingerers)
		if n > 0 || k.armed != never || k.held.Load() != 0 {
			t.Errorf("left behind: %d slots, %d to be freed, %d holds, %d keepers, a timer for %v",
				len(k.slots), len(k.leaving.holds), len(k.holds), len(k.keepers), k.armed)
		}
	})
	return p
}

// take grants the lock name in Redis, and has it kept.
func (p *keeper) take(name string, lease time.Duration, max int) *Kept {
	p.n++
	id := fmt.Sprintf("%s:%d", p.names.ID, p.n)
	until := time.Now().Add(lease)
	p.up.set(func() {
		p.up.holds[p.names.Place(name).Key] = &entry{token: "t", keeper: id, fence: int64(p.n), until: until}
	})
	return p.Keep(Hold{Name: name, Token: "t", Fence: int64(p.n), Lease: lease, Until: until, Keeper: id,
		Terms: Terms{Max: max}, Lost: func(l Lost) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.lost = append(p.lost, name+" "+string(l.Why))
			p.when = append(p.when, time.Now())
		}})
}

// is says what happens with h.
func (h *Kept) is() state {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.state
}

// losses are what was reported until now.
func (p *keeper) losses() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprint(p.lost)
}

// told is when loss number i was reported.
func (p *keeper) told(i int) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.when[i]
}

// held says that Redis has the lock name.
func (p *keeper) held(name string) bool {
	return get(p.up, func() bool { return p.up.live(p.names.Place(name).Key) != nil })
}

// renewals are the times at which name was renewed.
func (p *keeper) renewals(name string) []time.Time {
	return get(p.up, func() []time.Time { return p.up.renewed[p.names.Place(name).Key] })
}

// ends has Redis lose h, and the Locker hear why.
func (p *keeper) ends(h *Kept, why string) {
	p.up.set(func() { delete(p.up.holds, p.names.Place(h.of.Name).Key) })
	p.up.publish(why + " " + h.of.Keeper)
	synctest.Wait()
}
