package trace

import (
	"slices"
	"strconv"
	"time"
)

// breakUp is LOCKCTL BREAK.
func (f *fake) breakUp(key string) Reply {
	l := f.lock(key)
	if len(l.holds) == 0 || f.mutant == blindBreak {
		return Reply{}
	}
	if f.mutant != idleBreak {
		clear(l.holds)
	}
	f.pass(key)
	return Reply{Int: 1}
}

// setArgs are the keys, the token and the options of MLOCK and MUNLOCK.
func setArgs(args []string) (keys []string, token string, number map[string]time.Duration) {
	n, _ := strconv.Atoi(args[1])
	keys, rest := args[2:2+n], args[2+n:]
	if rest[0] == "TOKEN" {
		rest = rest[1:]
	}
	number = map[string]time.Duration{}
	for i := 1; i+1 < len(rest); i += 2 {
		ms, _ := strconv.Atoi(rest[i+1])
		number[rest[i]] = time.Duration(ms) * time.Millisecond
	}
	return keys, rest[0], number
}

// lockSet is MLOCK, which takes its locks in the order of their names.
func (f *fake) lockSet(args []string, closed <-chan struct{}) (r Reply, undo func()) {
	keys, token, number := setArgs(args)
	var taken []*fakeWaiter
	var names []string
	free := func() {
		for i, w := range taken {
			if f.mutant == setLeft && i == 0 {
				continue
			}
			f.undo(names[i], w)
		}
	}
	until, fences := time.Now().Add(number["WAIT"]), map[string]int64{}
	for i, key := range slices.Sorted(slices.Values(keys)) {
		w := &fakeWaiter{token: token, mode: Write, lease: number["PX"], id: 1 + f.random.Int(),
			given: make(chan []int64, 1), over: closed, asked: time.Now()}
		got := []int64(nil)
		if f.inUse(key, w) == "" {
			got = f.takeOne(key, w, until, closed)
		}
		if got == nil && f.mutant == setOfSome && i > 0 {
			f.fence++
			got = []int64{f.fence}
		}
		if got == nil {
			f.mu.Unlock()
			free()
			f.mu.Lock()
			return Reply{Null: true}, nil
		}
		taken, names = append(taken, w), append(names, key)
		fences[key] = got[0]
	}
	for _, key := range keys {
		r.Array = append(r.Array, fences[key])
		if h := f.lock(key).holds[token]; h != nil {
			h.expires = time.Now().Add(number["PX"])
		}
	}
	if f.mutant == setSharesFence {
		slices.Reverse(r.Array)
	}
	r.Array = append(r.Array, number["PX"].Milliseconds())
	return r, free
}

// takeOne takes one lock of a set, and waits for it until then, without f.mu.
func (f *fake) takeOne(key string, w *fakeWaiter, until time.Time, closed <-chan struct{}) []int64 {
	if got := f.try(key, w, false, time.Now().Before(until)); got != nil || !time.Now().Before(until) {
		return got
	}
	f.mu.Unlock()
	var got []int64
	select {
	case got = <-w.given:
	case <-time.After(time.Until(until)):
	case <-closed:
	}
	f.mu.Lock()
	if got == nil {
		select {
		case got = <-w.given:
		default:
			f.leave(key, w)
		}
	}
	return got
}

// unlockSet is MUNLOCK.
func (f *fake) unlockSet(args []string) (r Reply) {
	keys, token, _ := setArgs(args)
	for i, key := range keys {
		if i == 0 && f.mutant == setHalfFreed {
			r.Int++
			continue
		}
		r.Int += f.unlock(key, token, 0).Int
	}
	return r
}

// renewSet is MRENEW, whose ttl is the least.
func (f *fake) renewSet(args []string, closed <-chan struct{}) Reply {
	keys, token, number := setArgs(args)
	var left []int64
	for i, key := range keys {
		if i == 0 && f.mutant == setHalfRenewed {
			continue
		}
		left = append(left, f.renew(key, token, number["PX"], 0, false, 0, closed).Int)
	}
	return Reply{Int: slices.Min(left)}
}
