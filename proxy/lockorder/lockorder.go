// Package lockorder keeps the verbs of one client for one lock in order.
package lockorder

import "maps"

// Order keeps the verbs of one client for one lock in order, while those for different locks run at the
// same time. Of the locks of RedLock it knows all commands: their requests go to the masters without the
// pipes, which would otherwise keep the order. Of other locks it knows the commands of which one request is
// not always all. The zero value is ready.
type Order struct {
	last map[string]uint32 // by lock: the last command that later ones wait for, perhaps answered already
}

// Unanswered are the commands of a client that are not answered: those from First on, up to Next. The numbers
// wrap around, so they are compared by their differences alone.
type Unanswered struct{ First, Next uint32 }

func (u Unanswered) len() uint32              { return u.Next - u.First }
func (u Unanswered) hasCommand(n uint32) bool { return n-u.First < u.len() }

// fewHeld is how many locks are kept in mind although no command under way is about them.
const fewHeld = 16

// Hold makes later commands about the lock wait for command n.
func (o *Order) Hold(name string, n uint32, unanswered Unanswered) {
	name = bare(name)
	before, known := o.last[name]
	switch {
	case known && unanswered.hasCommand(before) && int32(before-n) > 0: // which is answered behind n
		return
	case o.last == nil:
		o.last = make(map[string]uint32)
	case len(o.last) >= fewHeld+2*int(unanswered.len()):
		maps.DeleteFunc(o.last, func(_ string, n uint32) bool { return !unanswered.hasCommand(n) })
	}
	o.last[name] = n
}

// IsHeld says that a command about the lock must wait. Without a name it is about all locks.
func (o *Order) IsHeld(name []byte, unanswered Unanswered) bool {
	if name != nil {
		n, known := o.last[string(bare(name))]
		return known && unanswered.hasCommand(n)
	}
	for _, n := range o.last {
		if unanswered.hasCommand(n) {
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

// Tidy forgets the locks once all commands are answered.
func (o *Order) Tidy(unanswered Unanswered) {
	switch {
	case unanswered.len() > 0:
	case len(o.last) > fewHeld: // names are long
		o.last = nil
	default:
		clear(o.last)
	}
}
