package trace

import "time"

// This file is how others end the connections of clients, or have them fall silent.

// Kill closes the connection of a client at once, whatever it waits for.
func (r *Running) Kill(client int) { r.clients[client].kill() }

// Cut has the proxy close the connection of a client.
func (r *Running) Cut(client int) { r.clients[client].cut() }

// Shut runs how, which has a proxy close connections of its clients.
func (r *Running) Shut(proxy int, how func()) {
	for _, c := range r.clients {
		c.mu.Lock()
		if c.conn != nil && !c.dropped && c.proxy == proxy {
			c.isCut = true
		}
		c.mu.Unlock()
	}
	how()
}

// Rest has a client do nothing for d before its next call.
func (r *Running) Rest(client int, d time.Duration) {
	c := r.clients[client]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = d
}

func (c *client) takeRest() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.rest
	c.rest = 0
	return d
}

func (c *client) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.dropped = true
		c.conn.Close()
	}
}

func (c *client) cut() {
	c.mu.Lock()
	conn := c.conn
	c.isCut = conn != nil && !c.dropped
	c.mu.Unlock()
	if conn != nil {
		conn.Cut()
	}
}

// closed says who has closed the connection on purpose: errDropped, errCut or, if nobody has, nil.
func (c *client) closed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.dropped:
		return errDropped
	case c.isCut:
		return errCut
	}
	return nil
}
