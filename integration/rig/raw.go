package rig

import "time"

// Hear sends bytes in pieces and returns what comes back until all is sent and nothing has come for so long,
// and whether the other side closed.
func Hear(addr string, send []byte, piece int, quiet time.Duration) (heard []byte, closed bool, err error) {
	c, err := Dial(addr)
	if err != nil {
		return nil, false, err
	}
	defer c.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for rest := send; len(rest) > 0; {
			n := min(piece, len(rest))
			if _, err := c.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
			if piece < 100 {
				time.Sleep(time.Millisecond)
			}
		}
	}()
	buf := make([]byte, 1<<16)
	for {
		over := false // all had been sent before
		select {
		case <-sent:
			over = true
		default:
		}
		c.SetReadDeadline(time.Now().Add(quiet))
		n, err := c.Reader.Read(buf)
		heard = append(heard, buf[:n]...)
		if err != nil && (over || !IsTimeout(err)) {
			return heard, !IsTimeout(err), nil
		}
	}
}
