package pipe

// HasRoom says that owner may have one more connection to itself at once.
func HasRoom(p *Pool, owner Counted) bool {
	o := &p.own
	return len(o.all)+len(o.queue) < o.most && o.shares.within(owner.Party(), o.most)
}

// Pause stops reading from the connections, as long as their client does not take what came: the nodes keep
// the rest. Otherwise they are read on.
func (o *Private) Pause(on bool) {
	o.paused = on
	for _, pp := range o.byAddr {
		pp.pause()
	}
}

// pause does what Private.Pause has said.
func (pp *privatePipe) pause() {
	p := pp.pipe
	switch {
	case p.conn == nil:
	case pp.of.paused:
		p.conn.Pause(0)
	default:
		p.progress = p.loop.Now()
		p.conn.Resume()
	}
}

// isPaused says that nothing is read from a pipe for which its client is the reason.
func (pp *privatePipe) isPaused() bool { return pp != nil && pp.of.paused }
