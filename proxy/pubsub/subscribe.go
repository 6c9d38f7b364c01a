package pubsub

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
	"unsafe"

	"lockproxy/cluster/pubsub"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
)

// This file makes a client listen: to a few topics at once, or to thousands over many rounds of the loop:
//
//	Subscribe --> names --(rounds: which are new)--> Join --(rounds: confirmations)--> the answer
//
// Messages for a new subscription wait for the answer.

// leastPatience is how long nodes may at least take to confirm, whatever the budget of Options.Pipes. A
// client whose names are slow to be confirmed gets an error, and listens to none that it did not listen to
// before.
const leastPatience = 10 * time.Second

var errNotConfirmed = errors.New("no node confirmed it in time")

// joining is a command that subscribes. It belongs to the loop, but for joinTopics and joinManyTopics: these
// run on the goroutine of the task, while the client waits and nobody else has it.
type joining struct {
	l       *Subscriber
	tag     uint32
	kind    pubsub.Kind
	names   []string                 // of the command
	missing []string                 // names that the client does not listen to yet, each once
	topics  map[string]*pubsub.Topic // by name: those of missing that it has no subscription for yet
	out     []byte                   // confirmations
}

// Subscribe implements commands.Subscriptions: it makes the client listen to topics of these names. Where the
// client listens to all of them already, no node is asked.
func (l *Subscriber) Subscribe(kind pubsub.Kind, names [][]byte) {
	j := &joining{l: l, tag: l.h.CurrentTag(), kind: kind, topics: make(map[string]*pubsub.Topic)}
	if len(names) > PerRound {
		// Only to look up so many names would hold up the loop: the goroutine has it do that in rounds.
		raw := client.Lasting(l.h.Call().Raw)
		l.h.KeepFor(j.tag, 3*len(raw)) // the command, its names, and what the nodes are asked
		j.beginJoining(nil, func(ctx context.Context) error { return j.joinManyTopics(ctx, raw) })
		return
	}
	j.names = texts(names)
	j.lookForMissing(j.names)
	if len(j.missing) == 0 {
		l.h.Answers().Speak(j.tag)
		l.h.Reply(j.confirmNames(j.names))
		return
	}
	// Each name is in missing, and again in what the nodes are asked.
	size := 0
	for _, name := range j.missing {
		size += 2 * (len(name) + int(unsafe.Sizeof(name)))
	}
	l.h.KeepFor(j.tag, size)
	j.beginJoining(j.missing, j.joinTopics)
}

// beginJoining runs join, after which the names left are confirmed. missing has the names of the topics to
// join; nil: they are too many to look at now. The answer comes back through the mailbox, so it is made
// behind all messages that came before it.
func (j *joining) beginJoining(missing []string, join func(ctx context.Context) error) {
	limit := max(j.l.hub.budget, leastPatience)
	confirmed := j.l.hub.underway.beginRequest(j.kind, missing)
	j.l.tasks.Start(func(ctx context.Context) (end func() []byte) {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, errNotConfirmed)
		defer cancel()
		err := join(ctx)
		return func() []byte {
			// Behind the confirmation: a PUBLISH that waits for it then finds the client counted.
			defer confirmed()
			return j.endJoining(err)
		}
	}, j.l.hub.box.Post)
}

func texts(names [][]byte) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = string(name)
	}
	return all
}

// lookForMissing finds out which of names the client does not listen to. Redis confirms a name as often as it
// was given, but it is subscribed once. It runs on the loop: the subscriptions of the client are there.
func (j *joining) lookForMissing(names []string) {
	for _, name := range names {
		if _, seen := j.topics[name]; !seen && j.l.findSubscription(j.kind, name) == nil {
			j.topics[name] = nil // until it is joined
			j.missing = append(j.missing, name)
		}
	}
}

// joinTopics subscribes the loop to what is missing. It blocks until the nodes have confirmed all, or ctx
// ends.
func (j *joining) joinTopics(ctx context.Context) error {
	topics, err := j.l.hub.upstream.Join(ctx, j.kind, j.missing, j.l.hub.box)
	if err != nil {
		return err
	}
	for _, t := range topics {
		j.topics[t.Name] = t
	}
	return nil
}

// joinManyTopics is joinTopics for the names of raw, a long command. It confirms all but the last of them.
// The last ones are confirmed by endJoining, in the same step in which the answer is given.
func (j *joining) joinManyTopics(ctx context.Context, raw []byte) error {
	j.names, j.out = namesOf(raw)
	j.l.eachRound(j.names, 0, j.lookForMissing)
	if len(j.missing) > 0 {
		if err := j.joinTopics(ctx); err != nil {
			return err
		}
	}
	j.names = j.l.eachRound(j.names, PerRound, func(names []string) { j.confirmNames(names) })
	return nil
}

// confirmationRoom is the most bytes that a confirmation has besides the name.
const confirmationRoom = 80

// namesOf returns the names in raw, a long command, and room for the confirmation of each, so that the loop
// need not copy while these grow.
func namesOf(raw []byte) (names []string, room []byte) {
	args, _, _ := resp.Split(raw, nil) // it was valid before
	return texts(args[1:]), make([]byte, 0, len(raw)+len(args)*confirmationRoom)
}

// endJoining confirms the names that are left, or reports the error. It runs on the loop. What was joined for
// a client that has gone meanwhile is left again.
func (j *joining) endJoining(err error) []byte {
	switch {
	case err != nil:
		return subscribeError(err)
	case j.l.h.Gone():
		j.l.hub.releaseTopics(slices.Collect(maps.Values(j.topics)))
		return client.NoAnswer
	}
	j.l.h.Answers().Speak(j.tag)
	return j.confirmNames(j.names)
}

// subscribeError is the reply for an error of Join. What a node refused is answered in the node's words.
func subscribeError(err error) []byte {
	var reply pubsub.SubscribeError
	switch {
	case errors.As(err, &reply):
		return commands.ErrorReply(reply)
	case errors.Is(err, commands.ErrDraining):
		return commands.ErrorReply(commands.ErrDraining)
	}
	return commands.ErrorReply(err)
}

// confirmNames makes the client listen to the topics of names. It returns their confirmations behind earlier
// ones. If the client has gone it does nothing.
func (j *joining) confirmNames(names []string) []byte {
	l := j.l
	if l.h.Gone() {
		return nil
	}
	if l.has.byName[j.kind] == nil {
		l.has.byName[j.kind] = make(map[string]*subscription)
	}
	for _, name := range names {
		if l.findSubscription(j.kind, name) == nil {
			l.addSubscription(j.kind, j.topics[name], j.tag)
			// topics keeps what no subscription has taken over: endJoining leaves that if the client goes.
			delete(j.topics, name)
			if l.own.User() != nil {
				l.own.User().Rules = "" // they may have changed since the upstream was asked
			}
		}
		j.out = l.appendConfirmation(j.out, pubsub.Words[j.kind].Subscribe, j.kind, name)
	}
	l.h.CountMemory()
	return j.out
}

// eachRound calls do with some of the names in each round of the loop. It returns the last ones, at most
// left. It must not be called on the loop. It waits for each of these rounds.
func (l *Subscriber) eachRound(names []string, left int, do func(some []string)) []string {
	for len(names) > left {
		some := names[:min(PerRound, len(names))]
		if !l.nextRound(func() { do(some) }) {
			break
		}
		names = names[len(some):]
	}
	return names
}

// nextRound runs f in the next round of the loop, behind the messages that have come, and waits for it. It
// must not be called on the loop. The result is false if the loop has ended. The mailbox keeps the order
// among messages; the loop's own Post makes it another round, so that others have their turn first.
func (l *Subscriber) nextRound(f func()) bool {
	done := make(chan struct{})
	l.hub.box.Post(func() {
		l.h.Loop().Post(func() {
			f()
			close(done)
		})
	})
	select {
	case <-done:
		return true
	case <-l.h.Loop().Done():
		return false
	}
}
