package cluster

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// limitSilence has the kernel give up a connection whose peer is gone. It probes an idle connection after
// idle, and what was sent must be acknowledged within the same time (TCP_USER_TIMEOUT).
func limitSilence(conn *net.TCPConn, idle time.Duration) {
	conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idle, Interval: max(idle/3, time.Second),
		Count: 3})
	if raw, err := conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			// If the kernel refuses, its own, longer time-out stays: about a quarter of an hour of
			// retransmissions.
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(idle.Milliseconds()))
		})
	}
}
