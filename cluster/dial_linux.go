package cluster

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// limitSilence has the kernel give a connection up whose peer is gone: an idle one
// is probed after idle, and what was sent must be acknowledged within the
// same time (TCP_USER_TIMEOUT).
func limitSilence(conn *net.TCPConn, idle time.Duration) {
	conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idle, Interval: max(idle/3, time.Second),
		Count: 3})
	if raw, err := conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			// A kernel that refuses is left with its own, longer time-out.
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(idle.Milliseconds()))
		})
	}
}
