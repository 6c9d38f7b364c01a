package cluster

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// limitSilence has the kernel give up a connection whose peer does not acknowledge what was sent within that
// time (TCP_USER_TIMEOUT).
func limitSilence(conn *net.TCPConn, most time.Duration) {
	if raw, err := conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			// If the kernel refuses, its own, longer time-out stays: about a quarter of an hour of
			// retransmissions.
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(most.Milliseconds()))
		})
	}
}
