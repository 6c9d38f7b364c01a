//go:build !linux

package cluster

import (
	"net"
	"time"
)

// limitSilence has the kernel give a connection up whose peer is gone.
func limitSilence(conn *net.TCPConn, idle time.Duration) {
	conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idle, Interval: max(idle/3, time.Second),
		Count: 3})
}
