package lifecycle

import (
	"fmt"
	"net"
	"os"
	"sync"

	"lockproxy/proxy/door"
)

// Ports are the listening sockets of the program. Those that another process has handed to it are used in
// place of new ones, so that no client is refused in between. Safe for concurrent use.
type Ports struct {
	mu     sync.Mutex
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
	ln, err := p.used(name)
	if ln == nil && err == nil {
		ln, err = door.Listen(addr)
	}
	if err == nil {
		p.note(setting, ln.Addr())
	}
	if err != nil || !p.copied {
		return ln, err
	}
	file, err := ln.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		ln.Close()
		return nil, fmt.Errorf("a copy of it: %w", err)
	}
	p.copies = append(p.copies, port{name, file})
	return ln, nil
}

// note keeps the first address of a setting.
func (p *Ports) note(setting string, addr net.Addr) {
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

// used is the listener of that name among those that were handed over; nil: there is none.
func (p *Ports) used(name string) (net.Listener, error) {
	for i, one := range p.handed {
		if one.name != name {
			continue
		}
		p.handed = append(p.handed[:i], p.handed[i+1:]...)
		defer one.file.Close()
		return net.FileListener(one.file)
	}
	return nil, nil
}

// take notes ports that another process has handed over.
func (p *Ports) take(all []port) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handed = append(p.handed, all...)
}

// unused closes those that nobody wants, and returns their names.
func (p *Ports) unused() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.handed {
		one.file.Close()
		names = append(names, one.name)
	}
	p.handed = nil
	return names
}

// all are copies of all ports; they stay those of p.
func (p *Ports) all() []port {
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
func (p *Ports) Lent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lent
}
