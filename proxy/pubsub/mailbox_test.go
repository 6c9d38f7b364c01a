package pubsub

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/cluster/pubsub"
	"lockproxy/internal/loop"
)

// Letters are dealt with in their order, in portions between which the loop does other things, and
// a mailbox that is full has room again when it is emptied.
func TestMailbox(t *testing.T) {
	l := loop.NewPortable()
	go l.Run()
	t.Cleanup(l.Close)
	topic := &pubsub.Topic{TopicName: pubsub.TopicName{Name: "x"}}
	var got []string
	var m *mailbox
	calls := 0
	m = newMailbox(l, func(p *portion, _ int, again bool) (int, bool) {
		if calls++; calls%7 == 3 && !again {
			return p.size, false // it comes again
		}
		for _, message := range p.messages {
			got = append(got, p.topic.Name+strings.TrimSpace(string(message[:8])))
		}
		return p.size, true
	})
	paused, goOn := make(chan bool), make(chan bool)
	l.Post(func() { paused <- true; <-goOn })
	<-paused
	large := strings.Repeat(" ", mailShare/4)
	var want []string
	full := 0
	for i := range 200 {
		if m.Deliver(topic, []byte(fmt.Sprintf("%-8d", i)+large)) {
			full++
		}
		want = append(want, fmt.Sprint("x", i))
		if i%50 == 7 {
			m.Post(func() { got = append(got, fmt.Sprint("behind ", i)) })
			want = append(want, fmt.Sprint("behind ", i))
		}
	}
	space := m.Space()
	select {
	case <-space:
		t.Error("it has room while it is full")
	default:
	}
	rounds := 0
	var between func()
	between = func() {
		if rounds++; len(got) < len(want) {
			l.Post(between)
		}
	}
	l.Post(between)
	goOn <- true
	select {
	case <-space:
	case <-time.After(2 * time.Minute):
		t.Fatal("no room")
	}
	done := make(chan bool)
	m.Post(func() { close(done) })
	<-done
	if full < 50 || full > 100 {
		t.Errorf("full %d times of 200", full)
	}
	if rounds < 20 {
		t.Errorf("all was handed out in %d rounds", rounds)
	}
	ended := make(chan bool)
	l.Post(func() { close(ended) })
	<-ended
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	<-m.Space()
	l.Close()
	if m.Post(func() {}) || m.Deliver(topic, make([]byte, mailboxLimit+1)) {
		t.Error("a loop that has ended takes letters")
	}
}
