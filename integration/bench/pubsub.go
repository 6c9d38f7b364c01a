package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

const (
	listeners   = 50
	messageSize = 32 // bytes of what is published
)

// pubsub measures messages of one publisher to 50 listeners of one channel, straight at one of the cluster's
// masters and through lockproxy. Master tells master in both cases.
func pubsub(y *yard, rep *report) {
	all := []way{y.direct, y.lockproxy[0]}
	shapes := []shape{{"one at a time", listeners, 1, 0.05}, {"16 at a time", listeners, 16, 0.2}}
	whats := []string{shapes[0].name, shapes[1].name}
	r := results{}
	y.rounds(r, all, whats, func(i int, w way) sample {
		l := load{pipeline: shapes[i].pipeline, step: true}
		defer l.close()
		y.check(broadcast(&l, w.doors[0], fmt.Sprintf("bench:%08x", rand.Uint32())))
		batches := max(10, int(float64(y.o.requests)*shapes[i].share)/l.pipeline)
		_, err := l.run(batches / 10) // not counted: it warms up
		y.check(err)
		return y.costed(w, func() (sample, int) {
			s, err := l.run(batches)
			y.check(err)
			s[rate] *= listeners
			return s, batches * l.pipeline * listeners
		})
	})
	rep.printf("\n## Messages of one publisher to %d listeners\n\n%s\nMessages are counted as listeners get "+
		"them. Latencies are from a batch being published to the last listener\n"+
		"having all of it; the next batch follows then.\n", listeners, r.table(whats, all,
		whole("messages/s", rate), ofBase("direct", rate), whole("p50 µs", p50), ofBase("direct", p50),
		whole("p99 µs", p99), hundredths("proxy's CPU µs a message", cpu), hundredths("Redis's", redisCPU),
		ofBase("direct", redisCPU)))
}

// broadcast makes a load of a publisher and its listeners, once these have subscribed. No message is like
// another, and no byte more or other may come.
func broadcast(l *load, addr, channel string) error {
	subscribed := "*3\r\n" + strings.TrimPrefix(string(command("subscribe", channel)), "*2\r\n") + ":1\r\n"
	subscribe := load{pipeline: 1, even: true}
	for range listeners {
		if err := subscribe.dial(addr, cycle([][]byte{command("SUBSCRIBE", channel)}, 0),
			exactly(subscribed)); err != nil {
			return err
		}
	}
	if _, err := subscribe.run(listeners); err != nil {
		subscribe.close()
		return err
	}
	text := func(n int) string { return fmt.Sprintf("%0*d", messageSize, n) }
	for _, c := range subscribe.conns {
		heard := 0
		c.out, c.next = nil, func(dst []byte) []byte { return dst }
		c.good = func(reply []byte) bool {
			heard++
			return string(reply) == string(command("message", channel, text(heard)))
		}
	}
	l.conns = subscribe.conns
	sent := 0
	return l.dial(addr, func(dst []byte) []byte {
		for range l.pipeline {
			sent++
			dst = append(dst, command("PUBLISH", channel, text(sent))...)
		}
		return dst
	}, exactly(fmt.Sprintf(":%d\r\n", listeners)))
}
