package lifecycle

import (
	"fmt"
	"net"
	"os"
	"sync"

	"lockproxy/proxy/door"
)

// Ports are the listening sockets of the program. Those that another process has handed to it are used in
// place of new ones, so that no client is refused in between. The zero Ports is ready. It belongs to the
// goroutine that listens, but First, Close and portCopies may be called from any. Names are "listen
// 127.0.0.1:6380" or "admin ..." in both processes, as the settings have the address.
type Ports struct {
	mu     sync.Mutex          // of bound and copies
	bound  map[string]net.Addr // by setting, the first address that is listened on
	handed []port              // by another process, and not used yet
	copied bool                // copies are kept, to hand them over
	copies []port
	lent   bool // some of them belong to the service manager
}

// port is a listening socket. Its name is that of the setting which names it, and its address as it is there.
type port struct {
	name string
	file *os.File
}

// Listen listens on addr, a TCP address or the path of a unix socket, for a setting.
func (p *Ports) Listen(setting, addr string) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := setting + " " + addr
	// An address that is named twice is used once: the second one is bound anew, and fails as it would
	// without a takeover.
	ln, err := p.useHanded(name)
	if ln == nil && err == nil {
		ln, err = door.Listen(addr)
	}
	if err == nil {
		p.noteAddr(setting, ln.Addr())
	}
	if err != nil || !p.copied {
		return ln, err
	}
	// A copy of the descriptor: the listener may be closed, or be a loop's, and the socket stays for the next
	// process.
	file, err := ln.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		ln.Close()
		return nil, fmt.Errorf("a copy of it: %w", err)
	}
	p.copies = append(p.copies, port{name, file})
	return ln, nil
}

// noteAddr keeps the first address of a setting.
func (p *Ports) noteAddr(setting string, addr net.Addr) {
	if p.bound == nil {
		p.bound = make(map[string]net.Addr)
	}
	if p.bound[setting] == nil {
		p.bound[setting] = addr
	}
}

// First is the first address that is listened on for a setting; nil: none.
func (p *Ports) First(setting string) net.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bound[setting]
}

// useHanded is the listener of that name among those that were handed over; nil: there is none.
func (p *Ports) useHanded(name string) (net.Listener, error) {
	for i, one := range p.handed {
		if one.name != name {
			continue
		}
		p.handed = append(p.handed[:i], p.handed[i+1:]...)
		// FileListener has a copy of its own.
		defer one.file.Close()
		return net.FileListener(one.file)
	}
	return nil, nil
}

// closeUnused closes those that nobody wants, and returns their names. A socket that stays open and is not
// accepted from would let clients connect and wait in vain.
func (p *Ports) closeUnused() (names []string) {
	for _, one := range p.handed {
		one.file.Close()
		names = append(names, one.name)
	}
	p.handed = nil
	return names
}

// portCopies are copies of all ports; they stay those of p.
func (p *Ports) portCopies() []port {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.copies
}

// Close closes the copies, without which a port is closed when its listener is.
func (p *Ports) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.copies {
		one.file.Close()
	}
	p.copies = nil
}

// Lent says that some of them belong to the service manager, which has them served again: they stay open when
// this process ends.
func (p *Ports) Lent() bool { return p.lent }
