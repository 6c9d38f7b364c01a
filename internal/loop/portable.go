package loop

import "net"

// portable is the poller of a loop that serves every connection as a netSocket: so it waits for nothing but
// what is posted. It is for systems without epoll, and for tests in fake time: channels and mutexes are all
// that it waits on.
type portable struct {
	bell chan struct{} // capacity 1
}

func newPortable() *portable { return &portable{bell: make(chan struct{}, 1)} }

func (p *portable) wakeLoop() {
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

func (p *portable) closePoller() {}

func (p *portable) waitForEvents(l *Loop) {
	<-p.bell
	l.beginRound()
}

func (p *portable) adoptConn(nc net.Conn, c *Conn) (socket, error) {
	return newNetSocket(nc, c, nil), nil
}
