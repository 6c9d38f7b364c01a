package proxy

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/proxy/client"
	"lockproxy/proxy/memory"
)

// Before AUTH no more is read from a client that leaves 16 KiB of replies unread, and it goes on
// when it has read them.
func TestUnreadBeforeAuth(t *testing.T) {
	inBubble(t, 1, Options{Settings: Settings{Password: "secret"}}, echo, func(r *rig) {
		c := r.connect()
		const n = 200_000
		sent := make(chan error, 1)
		go func() { // ends with the connection
			_, err := io.WriteString(c, strings.Repeat("X\r\n", n))
			sent <- err
		}()
		synctest.Wait()
		ses := r.theOne()
		waiting, in := ses.out.waitingBytes(), ses.conn.Kept()
		if waiting > 2*memory.UnknownUnread || in > 2*64<<10 {
			r.Errorf("%d bytes of replies and %d of input are kept before AUTH", waiting, in)
		}
		select {
		case err := <-sent:
			r.Errorf("all was taken from a client that reads nothing (%v)", err)
		default:
		}
		c.expect(strings.Repeat(string(client.NoAuth), n))
		c.tell("+OK\r\n", "AUTH secret")
		c.tell("$2\r\nab\r\n", "ECHO ab")
	})
}

// A reply of more than 64 KiB closes a client that has not authenticated.
func TestOutputLimitBeforeAuth(t *testing.T) {
	inBubble(t, 1, Options{Settings: Settings{Password: "secret"}}, echo, func(r *rig) {
		c := r.connect()
		synctest.Wait()
		ses := r.theOne()
		ses.w.loop.Post(func() { ses.out.writeBytes(make([]byte, memory.UnknownLimit+1)) })
		synctest.Wait()
		c.expectClosed()
		if n := r.server.Stats().ClosedFull["unauthenticated"]; n != 1 {
			r.Errorf("%d are counted", n)
		}
	})
}

// Who must authenticate has auth-timeout for it, counted anew when RESET asks for it again.
func TestAuthTimeout(t *testing.T) {
	o := Options{Settings: Settings{Password: "secret"}}
	o.AuthTimeout = 10 * time.Second
	inBubble(t, 1, o, echo, func(r *rig) {
		idle, busy, user := r.connect(), r.connect(), r.connect()
		user.tell("+OK\r\n", "AUTH secret")
		for range 8 {
			time.Sleep(time.Second)
			busy.tell(string(client.NoAuth), "GET a")
		}
		time.Sleep(4 * time.Second)
		idle.expectClosed()
		busy.expectClosed()
		time.Sleep(time.Hour)
		user.tell("+RESET\r\n", "RESET")
		time.Sleep(8 * time.Second)
		user.tell("+OK\r\n", "AUTH secret")
		time.Sleep(time.Hour)
		user.tell("$2\r\nab\r\n", "ECHO ab")
		if n := r.server.Stats().AuthTimeouts; n != 2 {
			r.Errorf("%d are counted", n)
		}
		r.change(func(o *Options) { o.AuthTimeout = 0 })
		late := r.connect()
		time.Sleep(time.Hour)
		late.tell("+OK\r\n", "AUTH secret")
	})
}

// Who needs no password is no stranger, and a TLS handshake has no longer than AUTH.
func TestAuthTimeoutOfOthers(t *testing.T) {
	o := Options{TLS: func() *tls.Config { return &tls.Config{} }}
	o.AuthTimeout = time.Second
	inBubble(t, 1, o, echo,
		func(r *rig) {
			open := r.connect()
			here, there := net.Pipe()
			defer here.Close()
			start := time.Now()
			ln := make(arrivals)
			r.server.Serve(ln)
			ln <- there
			if _, err := here.Read(make([]byte, 1)); err == nil || time.Since(start) > 2*time.Second {
				r.Errorf("the handshake ended after %v (%v)", time.Since(start), err)
			}
			time.Sleep(time.Hour)
			open.tell("$2\r\nab\r\n", "ECHO ab")
		})
}

// theOne is the only client that is connected.
func (r *rig) theOne() *session {
	for s := range r.server.workers[0].sessions {
		return s
	}
	r.Fatal("nobody is connected")
	return nil
}
