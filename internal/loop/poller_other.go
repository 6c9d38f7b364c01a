//go:build !linux

package loop

import (
	"errors"
	"net"
	"time"
)

func newPoller() (poller, error) { return newPortable(), nil }

// Listen returns nil: here loops accept nothing by themselves.
func (l *Loop) Listen(net.Listener, time.Duration, Acceptor) *Listener { return nil }

// Take is for what a Listener has accepted.
func (l *Loop) Take(Incoming, Handler) (*Conn, error) { return nil, errors.ErrUnsupported }

// Close stops listening.
func (n *Listener) Close() error { return nil }

// KeepAlive sets after how long without bytes connections are probed.
func (n *Listener) KeepAlive(time.Duration) {}

// Refuse is never called: without accept4 there is no Incoming.
func (in Incoming) Refuse([]byte) {}
