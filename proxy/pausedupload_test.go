package proxy

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"lockproxy/cluster"
)

// A drain answers a command that a pause holds once, also if it was sent as it came.
func TestDrainOfPausedUpload(t *testing.T) {
	inUploadBubble(t, Options{}, func(u *uploads) {
		c, p := u.connect(), u.connect()
		big := strings.Repeat("x", 2*cluster.MaxShared)
		all := "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$" + strconv.Itoa(len(big)) + "\r\n" + big + "\r\n"
		c.Write([]byte(all[:len(all)-100]))
		synctest.Wait()
		p.send("CLIENT PAUSE 60000 WRITE")
		p.expect("+OK\r\n")
		c.Write([]byte(all[len(all)-100:]))
		synctest.Wait()
		go u.server.Drain(u.Context())
		c.expect("-TRYAGAIN lockproxy is shutting down: ask another one, or later\r\n")
		c.expectClosed()
	})
}
