package proxy

// Change sets those options of the Server that may change while it runs: the password, the limits of clients
// and commands, and times. It ignores the others. Safe for concurrent use.
func (s *Server) Change(o Options) {
	o = o.withDefaults()
	s.now.Store(&o)
	all := &s.shared
	all.Now.Store(&Settings{
		IdleTimeout: o.IdleTimeout, AuthTimeout: o.AuthTimeout, Output: o.Output, MaxPipeline: o.MaxPipeline,
	})
	all.Memory.SetLimit(o.MaxMemory)
	all.Scripts.SetLimit(int(o.MaxMemory / scriptShare))
	all.Limits.Follow(o.Limits)
	if s.Door != nil { // New calls it before
		s.Door.Change(doorSettings(&o))
	}
	for _, w := range s.workers {
		w.Change()
	}
}

// scriptShare says which part of the memory for clients the sources of scripts may take besides.
const scriptShare = 8
