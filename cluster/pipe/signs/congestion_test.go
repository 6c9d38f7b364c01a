package signs

import (
	"testing"
	"time"
)

// line is a node that answers one request after the other, and those who send to it.
type line struct {
	l       Congestion
	waiting []time.Duration // when each request came
	answers time.Duration   // when the next answer is there
	limit   time.Duration

	served, shed int
	longest      time.Duration
}

func at(d time.Duration) time.Time { return time.Unix(1_800_000_000, 0).Add(d) }

// run has requests come every so often, from one time to another, and the node answer each in so long.
func (q *line) run(from, to, every, takes time.Duration) {
	for now := from; now < to; now += every {
		for len(q.waiting) > 0 && q.answers <= now {
			q.l.Answered(at(q.answers))
			q.longest = max(q.longest, q.answers-q.waiting[0])
			q.served++
			q.waiting = q.waiting[1:]
			q.answers += takes
		}
		if q.l.Exceeds(len(q.waiting), at(now), q.limit) {
			q.shed++
			continue
		}
		if len(q.waiting) == 0 {
			q.answers = now + takes
		}
		q.waiting = append(q.waiting, now)
		q.l.Queued(len(q.waiting), at(now))
	}
}

// With twice the requests that a node can answer it does as much as it can, and those that it is given are
// answered in time. Before and behind that nothing is refused.
func TestOverload(t *testing.T) {
	const ms = time.Millisecond
	q := &line{limit: 200 * ms}
	q.run(0, 5*time.Second, 2*ms, ms)
	if q.shed > 0 {
		t.Errorf("%d were refused with half the load that the node can take", q.shed)
	}
	q.served, q.longest = 0, 0
	q.run(5*time.Second, 10*time.Second, ms/2, ms)
	if q.longest > 3*q.limit {
		t.Errorf("twice the load: somebody waited %v before it was seen", q.longest)
	}
	q.longest = 0
	q.run(10*time.Second, 65*time.Second, ms/2, ms)
	if q.served < 59_000 || q.longest > q.limit*3/2 || q.shed < 50_000 {
		t.Errorf("twice the load for a minute: %d were answered, the last after %v, and %d refused", q.served,
			q.longest, q.shed)
	}
	q.run(65*time.Second, 66*time.Second, 2*ms, ms)
	q.shed = 0
	q.run(66*time.Second, 70*time.Second, 2*ms, ms)
	if q.shed > 0 || len(q.waiting) > 2 {
		t.Errorf("afterwards %d were refused, and %d wait", q.shed, len(q.waiting))
	}
}

// Clients that are all answered at once, and all ask again at once, are refused as others are, after a few
// rounds, and the node goes on doing as much as it can.
func TestOverloadInStep(t *testing.T) {
	const (
		ms      = time.Millisecond
		clients = 150
		takes   = 5 * ms / 2
		limit   = 100 * ms
	)
	var l Congestion
	now, served, shed := time.Duration(0), 0, 0
	for round := range 100 {
		waiting := 0
		for range clients {
			if l.Exceeds(waiting, at(now), limit) {
				shed++
				continue
			}
			waiting++
			l.Queued(waiting, at(now))
			now += ms / 100
		}
		now += time.Duration(waiting) * takes
		for range waiting {
			l.Answered(at(now))
		}
		served += waiting
		if round >= 4 && (waiting < 35 || waiting > 45) {
			t.Fatalf("round %d: %d wait, and %d are answered in time", round, waiting, limit/takes)
		}
	}
	if shed < 10_000 || served < int(now/takes)*9/10 {
		t.Errorf("%d were refused, and %d answered in %v", shed, served, now)
	}
}

// A long command makes those behind it wait, which is no overload: none is refused.
func TestLongCommandsAreNoOverload(t *testing.T) {
	const ms = time.Millisecond
	q := &line{limit: 200 * ms}
	q.run(0, time.Second, 10*ms, ms)
	for i := range 20 {
		from := time.Duration(i+1) * time.Second
		q.answers = from + 700*ms // a second of each second stands still
		q.run(from, from+time.Second, 10*ms, ms)
	}
	if q.shed > 0 || q.longest < 500*ms {
		t.Errorf("%d were refused; the longest waited %v", q.shed, q.longest)
	}
}

// A node that is far away answers late, and is not overloaded as long as that is less than the limit, however
// many requests are on their way.
func TestDistanceIsNoOverload(t *testing.T) {
	const ms = time.Millisecond
	l, limit, shed := Congestion{}, 200*ms, 0
	var sent []time.Duration
	for now := time.Duration(0); now < 10*time.Second; now += ms / 10 {
		for len(sent) > 0 && sent[0]+150*ms <= now {
			l.Answered(at(now))
			sent = sent[1:]
		}
		if l.Exceeds(len(sent), at(now), limit) {
			shed++
			continue
		}
		sent = append(sent, now)
		l.Queued(len(sent), at(now))
	}
	if shed > 0 {
		t.Errorf("%d were refused", shed)
	}
}
