package rig

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// Watch keeps another client of the same nodes busy; the function it returns
// stops that and fails the test if anything was wrong for it.
func Watch(t *testing.T, p *Proxy, password string) (stop func()) {
	t.Helper()
	c := Connect(t, p.Addr)
	if password != "" {
		c.Must(t, "AUTH", password)
	}
	end, result := make(chan struct{}), make(chan error, 1)
	prefix := fmt.Sprintf("canary:%016x", rand.Uint64()) // each has keys of its own
	go func() { result <- sing(c, prefix, end) }()
	return func() {
		t.Helper()
		close(end)
		if err := <-result; err != nil {
			t.Errorf("another client of the same proxy: %v", err)
		}
	}
}

// sing writes and reads back values on several slots until end is closed.
func sing(c *Conn, prefix string, end chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-end:
			return nil
		default:
		}
		key, value := fmt.Sprintf("%s:%d", prefix, i%16), fmt.Sprintf("song\r\n$%d", i)
		if v, err := c.Do("SET", key, value); err != nil || v.Text != "OK" {
			return fmt.Errorf("SET: %s %v", v, err)
		}
		if v, err := c.Do("GET", key); err != nil || v.Text != value {
			return fmt.Errorf("GET: %s %v, want %q", v, err, value)
		}
		time.Sleep(time.Millisecond)
	}
}
