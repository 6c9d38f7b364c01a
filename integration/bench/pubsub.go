package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	listeners   = 50
	messageSize = 32 // bytes of what is published
)

// pubsub measures messages of one publisher to 50 listeners of one channel, straight at one of the cluster's
// masters and through lockproxy. Master tells master in both cases.
func pubsub(ctx context.Context, y *yard, o options, rep *report) error {
	all := append([]contender{y.direct}, y.lockproxy[:min(1, len(y.lockproxy))]...)
	shapes := []shape{{"one at a time", listeners, 1, 0.05}, {"16 at a time", listeners, 16, 0.2}}
	r := results{}
	for round := range o.rounds {
		for _, s := range shapes {
			progress("round %d of %d: messages to %d listeners, %s", round+1, o.rounds, listeners, s.name)
			for _, c := range rotated(all, round) {
				got, err := y.published(ctx, c, s, o)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, s.name, err)
				}
				r.add(s.name, c.name, got)
			}
		}
	}
	printPubsub(rep, r, shapes, all)
	return nil
}

// published is one measurement of one contender. Its rate and its CPU are of messages as listeners get them.
func (y *yard) published(ctx context.Context, c contender, s shape, o options) (sample, error) {
	a, err := gather(c.addr, fmt.Sprintf("bench:%08x", rand.Uint32()), s.pipeline)
	defer a.close()
	if err != nil {
		return sample{}, err
	}
	batches := int(float64(o.requests)*s.share) / s.pipeline
	if _, err := a.run(ctx, batches/10); err != nil { // not counted: it warms up
		return sample{}, err
	}
	redis, err := cpuOf(y.masterPIDs)
	if err != nil {
		return sample{}, err
	}
	proxy, err := c.cpu()
	if err != nil {
		return sample{}, err
	}
	got, err := a.run(ctx, batches)
	if err != nil {
		return sample{}, err
	}
	after, err := c.cpu()
	if err != nil {
		return sample{}, err
	}
	messages := batches * s.pipeline * listeners
	got = got.withCPU(after-proxy, messages)
	if after, err = cpuOf(y.masterPIDs); err != nil {
		return sample{}, err
	}
	got.redis = (after - redis) / time.Duration(messages)
	return got, nil
}

// broadcast is a publisher and its listeners. One thread, this one, serves them all.
type broadcast struct {
	channel  string
	pipeline int      // messages in a batch
	next     int      // number of the next message
	readers  []reader // the publisher, and behind it the listeners
	request  []byte   // a batch of the publisher
	replies  []byte   // what it gets for that
	messages []byte   // what each listener gets
}

// reader is a connection, and how much of what it is to get it has got.
type reader struct{ fd, got int }

// gather connects the publisher and the listeners and waits until these have subscribed.
func gather(addr, channel string, pipeline int) (*broadcast, error) {
	a := &broadcast{channel: channel, pipeline: pipeline}
	subscribed := fmt.Appendf(nil, "*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(channel), channel)
	for i := range 1 + listeners {
		fd, err := connect(addr)
		if fd >= 0 {
			a.readers = append(a.readers, reader{fd: fd})
		}
		if err != nil {
			return a, err
		}
		if i == 0 {
			continue
		}
		if _, err := unix.Write(fd, command(nil, "SUBSCRIBE", channel)); err != nil {
			return a, err
		}
		text := make([]byte, 0, 256)
		for len(text) < len(subscribed) {
			n, err := read(fd, text[len(text):cap(text)])
			if err != nil {
				return a, fmt.Errorf("SUBSCRIBE: %q, %w", text, err)
			}
			text = text[:len(text)+n]
		}
		if !bytes.Equal(text, subscribed) {
			return a, fmt.Errorf("SUBSCRIBE: %q", text)
		}
	}
	return a, nil
}

func (a *broadcast) close() {
	for _, r := range a.readers {
		unix.Close(r.fd)
	}
}

// write makes the next batch: no message is like another.
func (a *broadcast) write() {
	a.request, a.replies, a.messages = a.request[:0], a.replies[:0], a.messages[:0]
	for range a.pipeline {
		text := fmt.Sprintf("%0*d", messageSize, a.next)
		a.next++
		a.request = command(a.request, "PUBLISH", a.channel, text)
		a.replies = fmt.Appendf(a.replies, ":%d\r\n", listeners)
		a.messages = command(a.messages, "message", a.channel, text)
	}
}

// run publishes so many batches, each when all have got the one before.
func (a *broadcast) run(ctx context.Context, batches int) (sample, error) {
	took := make([]time.Duration, 0, batches)
	polled := make([]unix.PollFd, 0, len(a.readers))
	buf := make([]byte, 64<<10)
	var total time.Duration
	for range batches {
		a.write()
		begun := time.Now()
		if _, err := unix.Write(a.readers[0].fd, a.request); err != nil {
			return sample{}, fmt.Errorf("PUBLISH: %w", err)
		}
		if err := a.hear(ctx, polled, buf); err != nil {
			return sample{}, err
		}
		took = append(took, time.Since(begun))
		total += took[len(took)-1]
	}
	slices.Sort(took)
	return sample{
		rate: float64(batches*a.pipeline*listeners) / total.Seconds(),
		p50:  took[len(took)/2],
		p99:  took[len(took)*99/100],
	}, nil
}

// hear reads until all have got the batch, and no byte more or other.
func (a *broadcast) hear(ctx context.Context, polled []unix.PollFd, buf []byte) error {
	late := time.Now().Add(patience)
	for i := range a.readers {
		a.readers[i].got = 0
		polled = append(polled, unix.PollFd{Fd: int32(a.readers[i].fd), Events: unix.POLLIN})
	}
	for owed := len(a.readers); owed > 0; {
		if _, err := unix.Poll(polled, 1000); err != nil && err != unix.EINTR {
			return err
		}
		if ctx.Err() != nil || time.Now().After(late) {
			return errors.Join(ctx.Err(), fmt.Errorf("%d have not got all messages", owed))
		}
		for i := range polled {
			if polled[i].Revents == 0 {
				continue
			}
			polled[i].Revents = 0
			r, want := &a.readers[i], a.messages
			if i == 0 {
				want = a.replies
			}
			n, err := read(r.fd, buf)
			if err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
			if !bytes.HasPrefix(want[r.got:], buf[:n]) {
				return fmt.Errorf("connection %d got %q, want %q", i, buf[:n], want[r.got:])
			}
			if r.got += n; r.got == len(want) {
				owed--
			}
		}
	}
	return nil
}

// read reads what there is; that there is no more to come is an error.
func read(fd int, buf []byte) (n int, err error) {
	if n, err = unix.Read(fd, buf); err == nil && n == 0 {
		err = io.EOF
	}
	return n, err
}

func printPubsub(rep *report, r results, shapes []shape, all []contender) {
	t := table{{"", "messages/s", "of direct", "p50 µs", "of direct", "p99 µs", "proxy's CPU µs a message",
		"Redis's", "of direct"}}
	for _, s := range shapes {
		for _, c := range all {
			row := []string{
				s.name + ", " + c.name,
				fmt.Sprintf("%.0f", r.median(s.name, c.name, rate)),
				fmt.Sprintf("%.2f", r.ratio(s.name, c.name, all[0].name, rate)),
				fmt.Sprintf("%.0f", r.median(s.name, c.name, p50)),
				fmt.Sprintf("%.2f", r.ratio(s.name, c.name, all[0].name, p50)),
				fmt.Sprintf("%.0f", r.median(s.name, c.name, p99)),
				"",
				fmt.Sprintf("%.2f", r.median(s.name, c.name, redisCPU)),
				fmt.Sprintf("%.2f", r.ratio(s.name, c.name, all[0].name, redisCPU)),
			}
			if c.pid != 0 {
				row[6] = fmt.Sprintf("%.2f", r.median(s.name, c.name, cpu))
			}
			t = append(t, row)
		}
	}
	rep.printf(
		"\n## Messages of one publisher to %d listeners\n\n%s\nMessages are counted as listeners get them. "+
			"Latencies are from a batch being published to the last listener\n"+
			"having all of it; the next batch follows then.\n", listeners, t)
}
