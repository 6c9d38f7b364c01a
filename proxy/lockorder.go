package proxy

import "lockproxy/commands"

// lockOrder keeps the verbs of one client for one lock of RedLock in order, while those for different locks
// run at the same time. Their requests go to the masters without the pipes, which would otherwise keep the
// order. The zero value is ready.
type lockOrder struct {
	last map[string]uint32 // by key of the lock: the last command for it, perhaps answered already
}

// mustWait says that command n for the lock must wait for an earlier one. Otherwise it notes the command.
// Without a key the command waits for all.
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

// tidy forgets the locks once all commands are answered.
func (o *lockOrder) tidy(unanswered *answers) {
	if unanswered.len() == 0 {
		o.last = nil
	}
}

// comesLater says that a command must wait for earlier ones of its client.
func (r *router) comesLater(cmd *commands.Command, args [][]byte) bool {
	s := r.s
	if cmd.Flags&commands.Alone != 0 {
		return s.answers.len() > 0
	}
	key, ok := s.w.server.locks.engines.Independent(cmd, args)
	return ok && s.router.locks.mustWait(key, s.answers.tail, &s.answers)
}
