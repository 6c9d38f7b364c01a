//go:build !linux

package main

import "golang.org/x/sys/unix"

// poller tells which of many sockets can be read, or written where that is wanted. Thousands of them make
// it slow: it looks at all each time.
type poller struct {
	watched []unix.PollFd
	numbers []int
	at      map[int]int // by number
	ready   []int
}

func newPoller() (*poller, error) { return &poller{at: map[int]int{}}, nil }

// add watches a socket, which is told by that number.
func (p *poller) add(fd, number int) error {
	p.at[number] = len(p.watched)
	p.watched = append(p.watched, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	p.numbers = append(p.numbers, number)
	return nil
}

// change says whether a socket is to be written, too.
func (p *poller) change(_, number int, write bool) error {
	p.watched[p.at[number]].Events = unix.POLLIN
	if write {
		p.watched[p.at[number]].Events |= unix.POLLOUT
	}
	return nil
}

// wait are the numbers of the sockets that are ready; none after so many ms.
func (p *poller) wait(ms int) ([]int, error) {
	_, err := unix.Poll(p.watched, ms)
	p.ready = p.ready[:0]
	if err == unix.EINTR {
		return nil, nil
	}
	for i, w := range p.watched {
		if w.Revents != 0 {
			p.ready = append(p.ready, p.numbers[i])
		}
	}
	return p.ready, err
}

func (*poller) close() {}
