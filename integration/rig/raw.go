package rig

import "time"

// Hear sends bytes in pieces and returns what comes back until nothing has come
// for a while, and whether the other side closed.
func Hear(addr string, send []byte, piece int) (heard []byte, closed bool, err error) {
	c, err := Dial(addr)
	if err != nil {
		return nil, false, err
	}
	defer c.Close()
	go func() {
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
	wait := time.Second
	if piece < 100 {
		wait += time.Duration(len(send)/piece) * 2 * time.Millisecond
	}
	buf := make([]byte, 1<<16)
	for {
		c.SetReadDeadline(time.Now().Add(wait))
		n, err := c.Reader.Read(buf)
		heard = append(heard, buf[:n]...)
		if err != nil {
			return heard, !IsTimeout(err), nil
		}
		wait = 500 * time.Millisecond
	}
}
