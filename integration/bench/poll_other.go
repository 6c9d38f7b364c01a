//go:build !linux

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps.
func nap(d time.Duration) { time.Sleep(d) }

// poller does what that of Linux does. Thousands of sockets make it slow: it looks at all each time.
type poller struct{ watched []unix.PollFd }

func newPoller() (*poller, error) { return &poller{}, nil }

// add watches a socket; they are numbered as they come, and one may take the place of another.
func (p *poller) add(fd, number int) error {
	p.watched = append(p.watched[:number], append([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}},
		p.watched[min(number+1, len(p.watched)):]...)...)
	return nil
}

func (p *poller) wait(ms int) (ready []int, err error) {
	if _, err = unix.Poll(p.watched, ms); err == unix.EINTR {
		return nil, nil
	}
	for i, w := range p.watched {
		if w.Revents != 0 {
			ready = append(ready, i)
		}
	}
	return ready, err
}

func (*poller) close() {}
