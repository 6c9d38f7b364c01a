package proxy

import "lockproxy/commands"

// lockOrder keeps the verbs of one client for one lock in order, while those for different locks run at the
// same time. Of the locks of RedLock it knows all commands: their requests go to the masters without the
// pipes, which would otherwise keep the order. Of other locks it knows the commands of which one request is
// not always all. The zero value is ready.
type lockOrder struct {
	last map[string]uint32 // by key of the lock: the last command for it, perhaps answered already
	held []heldLock        // in the order of the commands; the first ones may be answered already
}

// heldLock is a lock about which later commands must wait for command n.
type heldLock struct {
	name string
	n    uint32
}

// fewHeld is how many of them a client without commands under way has room for.
const fewHeld = 16

// hold makes later commands about the lock wait for command n.
func (o *lockOrder) hold(name string, n uint32, unanswered *answers) {
	over := 0
	for over < len(o.held) && !unanswered.has(o.held[over].n) {
		over++
	}
	left := copy(o.held, o.held[over:])
	clear(o.held[left:])
	o.held = append(o.held[:left], heldLock{name, n})
}

// isHeld says that a command about the lock must wait. Without a name it is about all locks.
func (o *lockOrder) isHeld(name []byte, unanswered *answers) bool {
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

// mustWait says that command n for the lock must wait for an earlier one. Otherwise it notes the command.
// Without a key the command waits for all.
func (o *lockOrder) mustWait(key string, n uint32, unanswered *answers) bool {
	if unanswered.len() == 0 {
		o.forget()
	}
	if key == "" {
		for _, before := range o.last {
			if before-unanswered.head < uint32(unanswered.len()) {
				return true
			}
		}
		return false
	}
	if before, ok := o.last[key]; ok && before-unanswered.head < uint32(unanswered.len()) {
		return true
	}
	if o.last == nil {
		o.last = make(map[string]uint32)
	}
	o.last[key] = n
	return false
}

// tidy forgets the locks once all commands are answered.
func (o *lockOrder) tidy(unanswered *answers) {
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
func (o *lockOrder) forget() {
	if len(o.last) > fewHeld {
		o.last = nil
	}
	clear(o.last)
}

// comesLater says that a command must wait for earlier ones of its client.
func (r *router) comesLater(cmd *commands.Command, args [][]byte) bool {
	s := r.s
	if cmd.Flags&commands.Alone != 0 {
		return s.answers.len() > 0
	}
	if key, ok := s.w.shared.Fixed.Independent(cmd, args); ok {
		return r.locks.mustWait(key, s.answers.tail, &s.answers)
	}
	if at := cmd.KeyAt(); at > 0 && at < len(args) {
		return r.locks.isHeld(args[at], &s.answers)
	}
	return r.locks.isHeld(nil, &s.answers)
}
