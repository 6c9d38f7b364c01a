package proxy

// Change sets those options of the Server that may change while it runs: the password, the limits of clients
// and commands, and times. It ignores the others. Safe for concurrent use.
func (s *Server) Change(o Options) {
	o = o.withDefaults()
	s.now.Store(&o)
	s.memory.SetLimit(o.MaxMemory)
	s.scripts.SetLimit(int(o.MaxMemory / scriptShare))
	s.limits.Follow(o.Limits)
	if s.Door != nil { // New calls it before
		s.Door.Change(doorSettings(&o))
	}
	for _, w := range s.workers {
		w.loop.Post(func() {
			w.checkFrom = o.Output.CheckFrom(narrowFrom)
			w.memory.Report()
		})
	}
}

// scriptShare says which part of the memory for clients the sources of scripts may take besides.
const scriptShare = 8
