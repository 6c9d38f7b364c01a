package keepalive

import (
	"context"
	"time"

	"lockproxy/redlock"
)

// mostFreers bounds how many holds are being freed at a time, however many a client had that went away.
const mostFreers = 256

// release frees h, which has ended, but not before the time at. Close waits until h is freed or its lease is
// over. mu is held.
func (k *Renewer) release(h *Kept, at time.Duration) {
	if k.closed {
		return
	}
	h.until = max(h.until, k.now()+h.lease) // a renewal may be under way
	h.tries = 0
	k.work.Add(1)
	if at > k.now() {
		k.postpone(h, at)
	} else {
		k.queue(h)
	}
}

// postpone has h freed at that time. mu is held.
func (k *Renewer) postpone(h *Kept, at time.Duration) {
	h.state = freeing
	h.group = k.groupOf(h.group.slot)
	k.set(h, at)
}

// queue leaves h to the next freer that has time. mu is held.
func (k *Renewer) queue(h *Kept) {
	h.state = freeing
	if k.leaving.add(h) {
		k.work.Go(k.freer) // ends when nothing is left to free
	}
}

// freer frees holds, those of a slot together, until none is left.
func (k *Renewer) freer() {
	for batch := k.nextToFree(); batch != nil; batch = k.nextToFree() {
		failed := k.detach.all(batch)
		k.change(func() {
			for i, h := range batch {
				k.freed(h, failed[i])
			}
		})
	}
}

// nextToFree takes the holds that a freer frees next. nil: there are none, and the freer ends.
func (k *Renewer) nextToFree() (batch []*Kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.leaving.next(k.detach.most())
}

// freed notes the outcome of an attempt to free h. mu is held.
func (k *Renewer) freed(h *Kept, err error) {
	if err != nil {
		k.complain(&k.unfreed, "locks of clients that have gone could not be freed yet", err)
	}
	if err == nil || k.now() >= h.until || k.detach.ctx.Err() != nil {
		h.state = over
		k.work.Done()
		if err == nil && !h.gone {
			k.told = append(k.told, report{hold: h, end: Freed})
		}
		return
	}
	pause := min(20*time.Millisecond<<min(h.tries, 10), 5*time.Second)
	h.tries = min(h.tries+1, 20)
	k.postpone(h, min(k.now()+pause, h.until))
}

// leaving has the holds that are to be freed, and counts who frees them. Renewer.mu guards it.
type leaving struct {
	slots  []int           // that have such holds, in turn
	bySlot map[int][]*Kept // those
	n      int             // how many they are
	freers int             // goroutines that free holds
}

// add puts h behind the others of its slot. It says that one more freer is to start; that one is counted
// already.
func (l *leaving) add(h *Kept) (start bool) {
	slot := h.group.slot
	if len(l.bySlot[slot]) == 0 {
		l.slots = append(l.slots, slot)
	}
	l.bySlot[slot] = append(l.bySlot[slot], h)
	l.n++
	if start = l.freers < mostFreers; start {
		l.freers++
	}
	return start
}

// next takes up to most holds of one slot. nil: there are none, and the freer who asks is counted no more.
func (l *leaving) next(most int) (batch []*Kept) {
	if len(l.slots) == 0 {
		l.slots = nil
		l.freers--
		return nil
	}
	slot := l.slots[0]
	l.slots = l.slots[1:]
	if batch = l.bySlot[slot]; len(batch) > most {
		l.slots, l.bySlot[slot] = append(l.slots, slot), batch[most:]
		batch = batch[:most]
	} else {
		delete(l.bySlot, slot)
	}
	l.n -= len(batch)
	return batch
}

// detacher asks the engine to free holds. Safe for concurrent use.
type detacher struct {
	engine  Engine
	ctx     context.Context // ends when Close has waited for those that are being freed
	abandon context.CancelFunc
}

func newDetacher(engine Engine) detacher {
	ctx, abandon := context.WithCancel(context.Background())
	return detacher{engine, ctx, abandon}
}

// most is how many holds it frees at once.
func (d *detacher) most() int {
	if _, ok := d.engine.(Batcher); ok {
		return mostKeys
	}
	return 1
}

// all makes one attempt to free the holds of batch, all of one slot: as many at once as it can, the others
// one by one. It returns what went wrong, for each.
func (d *detacher) all(batch []*Kept) (failed []error) {
	failed = make([]error, len(batch))
	done := make([]int64, len(batch))
	if b, ok := d.engine.(Batcher); ok && len(batch) > 1 {
		var err error
		if done, err = d.together(b, batch); err != nil {
			for i := range failed {
				failed[i] = err
			}
			return failed
		}
	}
	for i, h := range batch {
		if done[i] == 0 {
			failed[i] = d.one(h)
		}
	}
	return failed
}

func (d *detacher) together(b Batcher, batch []*Kept) ([]int64, error) {
	ctx, cancel := context.WithTimeout(d.ctx, mostPatience)
	defer cancel()
	all := make([]redlock.Renewal, len(batch))
	for i, h := range batch {
		all[i] = redlock.Renewal{Name: h.name.name, Token: h.name.token, Keeper: h.keeper}
	}
	return b.DetachAll(ctx, batch[0].group.slot, all)
}

func (d *detacher) one(h *Kept) error {
	ctx, cancel := context.WithTimeout(d.ctx, mostPatience)
	defer cancel()
	return d.engine.Detach(ctx, h.name.name, h.name.token, h.keeper)
}

// listen subscribes to the channel of this proxy's keepers, however long that takes.
func (k *Renewer) listen() {
	channel := k.names.KeeperChannel()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ctx, cancel := context.WithTimeout(k.ctx, mostPatience)
		stop, err := k.engine.Listen(ctx, -1, channel, k.heard)
		cancel()
		if err == nil {
			closed := false
			k.change(func() {
				closed, k.unlisten = k.closed, stop
				k.unheard()
			})
			if closed {
				stop()
			}
			return
		}
		if k.ctx.Err() != nil {
			return
		}
		k.o.Log.Warn("locks are kept alive without word from other proxies", "err", err)
		select {
		case <-time.After(pause):
		case <-k.ctx.Done():
			return
		}
	}
}

// Close forgets all holds, then waits until those being freed are, or until ctx ends.
func (k *Renewer) Close(ctx context.Context) {
	k.forget()
	done := make(chan struct{})
	go func() { // ends with the work, at the latest when abandon ends that
		k.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	k.detach.abandon()
	k.drop()
	<-done
}

// forget ends all holds that are kept.
func (k *Renewer) forget() {
	k.mu.Lock()
	k.closed = true
	for _, h := range k.holds {
		k.end(h)
	}
	k.arm()
	stop := k.unlisten
	k.unlisten = nil
	k.mu.Unlock()
	k.cancel()
	if stop != nil {
		stop()
	}
}

// drop gives up the holds that wait to be freed, once freeing has ended.
func (k *Renewer) drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.groups {
		for len(s.due) > 0 {
			h := s.due[0]
			s.due.remove(h)
			h.state = over
			k.work.Done()
		}
		k.tidy(s)
	}
	k.arm()
}
