package lifecycle

import (
	"net"
	"os"
	"sync"

	"lockproxy/proxy/door"
)

// Ports are the listening sockets of the program. Those that the service manager has handed to it (Activate)
// are used in place of new ones, so that no client is refused while the program is started anew. The zero
// Ports is ready. It belongs to the goroutine that listens, but First may be called from any.
type Ports struct {
	mu    sync.Mutex          // of bound
	bound map[string]net.Addr // by setting, the first address that is listened on
	// By the service manager, and not used yet. The key is "listen 127.0.0.1:6380" or "admin ...", as the
	// setting has the address.
	handed map[string]*os.File
}

// lent is a unix socket of the service manager. As no *net.UnixListener it keeps its file when it is closed.
type lent struct{ *net.UnixListener }

// Listen listens on addr, a TCP address or the path of a unix socket, for a setting.
func (p *Ports) Listen(setting, addr string) (net.Listener, error) {
	ln, err := p.useHanded(setting + " " + addr)
	if ln == nil && err == nil {
		ln, err = door.Listen(addr)
	}
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bound == nil {
		p.bound = make(map[string]net.Addr)
	}
	if p.bound[setting] == nil {
		p.bound[setting] = ln.Addr()
	}
	return ln, nil
}

// First is the first address that is listened on for a setting; nil: none.
func (p *Ports) First(setting string) net.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bound[setting]
}

// useHanded is the socket of the service manager with that name; nil: there is none. It is used once: a
// second listen on the same address fails, as always.
func (p *Ports) useHanded(name string) (net.Listener, error) {
	file := p.handed[name]
	if file == nil {
		return nil, nil
	}
	delete(p.handed, name)
	defer file.Close() // FileListener has a copy of its own
	ln, err := net.FileListener(file)
	if u, ok := ln.(*net.UnixListener); ok {
		return lent{u}, err
	}
	return ln, err
}
