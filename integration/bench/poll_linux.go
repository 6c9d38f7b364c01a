package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps on this thread alone. The runtime's timers are late by up to a millisecond in a process that has
// nothing else to do.
func nap(d time.Duration) {
	// The kernel adds 50 µs to be lazy unless asked not to. Where it refuses, that is all.
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0)
	t := unix.NsecToTimespec(int64(d))
	unix.Nanosleep(&t, nil)
}

// poller tells which of many sockets can be read. What it costs does not grow with the sockets that have
// nothing to say.
type poller struct {
	fd     int
	events [1024]unix.EpollEvent
	ready  []int
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return &poller{fd: fd}, err
}

// add watches a socket, which is told by that number.
func (p *poller) add(fd, number int) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(number)}
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &e)
}

// wait are the numbers of the sockets that are ready; none after so many ms.
func (p *poller) wait(ms int) ([]int, error) {
	n, err := unix.EpollWait(p.fd, p.events[:], ms)
	if err == unix.EINTR {
		return nil, nil
	}
	p.ready = p.ready[:0]
	for _, e := range p.events[:max(n, 0)] {
		p.ready = append(p.ready, int(e.Fd))
	}
	return p.ready, err
}

func (p *poller) close() { unix.Close(p.fd) }
