// Package lockorder keeps the verbs of one client for one lock in order.
package lockorder

// Order keeps the verbs of one client for one lock in order, while those for different locks run at the
// same time. Of the locks of RedLock it knows all commands: their requests go to the masters without the
// pipes, which would otherwise keep the order. Of other locks it knows the commands of which one request is
// not always all. The zero value is ready.
type Order struct {
	last map[string]uint32 // by key of the lock: the last command for it, perhaps answered already
	held []heldLock        // in the order of the commands; the first ones may be answered already
}

// heldLock is a lock about which later commands must wait for command n.
type heldLock struct {
	name string
	n    uint32
}

// Unanswered are the commands of a client that are not answered: those from First on, up to Next.
type Unanswered struct{ First, Next uint32 }

func (u Unanswered) len() uint32       { return u.Next - u.First }
func (u Unanswered) has(n uint32) bool { return n-u.First < u.len() }

// fewHeld is how many of them a client without commands under way has room for.
const fewHeld = 16

// Hold makes later commands about the lock wait for command n.
func (o *Order) Hold(name string, n uint32, unanswered Unanswered) {
	over := 0
	for over < len(o.held) && !unanswered.has(o.held[over].n) {
		over++
	}
	left := copy(o.held, o.held[over:])
	clear(o.held[left:])
	o.held = append(o.held[:left], heldLock{name, n})
}

// IsHeld says that a command about the lock must wait. Without a name it is about all locks.
func (o *Order) IsHeld(name []byte, unanswered Unanswered) bool {
	for _, h := range o.held {
		if unanswered.has(h.n) && (name == nil || string(bare(name)) == bare(h.name)) {
			return true
		}
	}
	return false
}

// bare is the name of a lock without the braces around it: job and {job} are one lock.
func bare[T []byte | string](name T) T {
	if n := len(name); n > 2 && name[0] == '{' && name[n-1] == '}' {
		return name[1 : n-1]
	}
	return name
}

// MustWait says that command n for the lock must wait for an earlier one. Otherwise it notes the command.
// Without a key the command waits for all.
func (o *Order) MustWait(key string, n uint32, unanswered Unanswered) bool {
	if unanswered.len() == 0 {
		o.forget()
	}
	if key == "" {
		for _, before := range o.last {
			if unanswered.has(before) {
				return true
			}
		}
		return false
	}
	if before, ok := o.last[key]; ok && unanswered.has(before) {
		return true
	}
	if o.last == nil {
		o.last = make(map[string]uint32)
	}
	o.last[key] = n
	return false
}

// Tidy forgets the locks once all commands are answered.
func (o *Order) Tidy(unanswered Unanswered) {
	if unanswered.len() > 0 {
		return
	}
	o.forget()
	if clear(o.held); cap(o.held) > fewHeld { // names are long
		o.held = nil
	}
	o.held = o.held[:0]
}

// forget forgets the last commands.
func (o *Order) forget() {
	if len(o.last) > fewHeld {
		o.last = nil
	}
	clear(o.last)
}
