//go:build !linux

package cluster

import (
	"net"
	"time"
)

// limitSilence does nothing where there is no such limit.
func limitSilence(*net.TCPConn, time.Duration) {}
