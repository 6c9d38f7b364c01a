package proxy

import "lockproxy/commands"

// lockOrder keeps the verbs of one client for one lock of RedLock in order, while those for different locks
// run at the same time: their requests go to the masters past the pipes, which would see to it. The zero
// value is ready.
type lockOrder struct {
	last map[string]uint32 // by key of the lock: its last command; may be answered already
}

// mustWait says that command n for the lock has to wait for an earlier one, or else notes it. Without a key
// the command waits for all.
func (o *lockOrder) mustWait(key string, n uint32, unanswered *answers) bool {
	if unanswered.len() == 0 {
		o.last = nil
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

// tidy forgets the locks when all commands are answered.
func (o *lockOrder) tidy(unanswered *answers) {
	if unanswered.len() == 0 {
		o.last = nil
	}
}

// comesLater says that a command which may have to wait for earlier ones of its client has to.
func (r *router) comesLater(cmd *commands.Command, args [][]byte) bool {
	s := r.s
	if cmd.Flags&commands.Alone != 0 {
		return s.answers.len() > 0
	}
	key, ok := s.w.server.locks.engines.Independent(cmd, args)
	return ok && s.router.locks.mustWait(key, s.answers.tail, &s.answers)
}
