// Package peers is how the proxies of one upstream ask each other what only they know, such as which client
// holds a lock, and find out that one of them has other settings (settings.go).
//
//	Ask --> PUBLISH lockproxy:peers --> every proxy: Responder
//	 ^                                     |
//	 |                                     v
//	 \--- channel of the one that asks <-- PUBLISH lockproxy:peers:id
//
// The channel is no matter of lock-prefix, so that proxies which have another one hear each other, too.
//
// Whoever may publish there can ask, and can lie. So an answer is shown to people, and nothing else is made
// of it. Whoever may subscribe there can listen. Sizes, numbers and times are bounded: a proxy that does not
// answer in time is left out, and questions that come too fast are dropped.
//
// A proxy takes part once a client has asked it for a lock (Join). Which proxies do, the servers tell: each
// listens to a channel of its own.
package peers

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/glob"
	"lockproxy/internal/resp"
	"lockproxy/internal/sleep"
	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
)

const (
	// Patience is how long answers are waited for.
	Patience = 200 * time.Millisecond
	// MostBytes bounds a question, and an answer. Longer ones are not sent, and not read.
	MostBytes = 256 << 10
	// mostAnswers and mostAnswerBytes bound what is kept of the answers to one question.
	mostAnswers     = 1000
	mostAnswerBytes = 16 << 20
	// mostAsked bounds the questions of this proxy that are open, and mostWaiting those of others that wait
	// for their turn.
	mostAsked   = 64
	mostWaiting = 64
	// joinPatience bounds an attempt to publish, and how long the first question waits for Join.
	joinPatience = time.Second
)

// Bus reaches the servers over which proxies talk. Safe for concurrent use.
type Bus interface {
	// Do runs req on the master of slot and returns its RESP2 reply.
	Do(ctx context.Context, slot int, req []byte, resend bool) (reply []byte, err error)
	// DoMaster is Do for the i-th of Masters.
	DoMaster(ctx context.Context, i int, req []byte, resend bool) (reply []byte, err error)
	Masters() int
	// Subscribe listens on channel until cancel is called; slot is -1. It never blocks. notify is called in
	// order and must not block.
	Subscribe(slot int, channel string, notify func(subscription.Change)) (cancel func())
}

// Responder answers the questions about one topic. It may be asked by anybody. nil: there is no answer.
type Responder func(question []byte) (answer []byte)

// Answer is what one proxy says.
type Answer struct {
	From string // id of the proxy, as it says
	Body []byte
}

// Options configure Peers.
type Options struct {
	ID       string               // of this proxy
	Fleet    string               // the proxies that talk with each other have the same
	Settings map[string]string    // what they must have the same, too: values, by the name of the setting
	Handlers map[string]Responder // answer the questions of others, by topic
	Quiet    bool                 // this is no proxy: it asks, and neither answers nor tells its settings
	Log      *slog.Logger
}

// Peers asks other proxies, and answers them. Safe for concurrent use. A nil one asks nobody and tells
// nothing.
type Peers struct {
	bus      Bus
	channel  string // of questions; behind a colon and an id, that of the answers for a proxy
	o        Options
	settings *settings

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	began  atomic.Bool
	joined chan struct{} // closed once this proxy listens
	queue  chan message  // questions of others
	// dropped is how many questions of others are not answered.
	dropped atomic.Uint64

	// mu guards asked and what is in there, and keeps Join from starting anything behind Close.
	mu sync.Mutex
	// By id: those whose answers are waited for. An answer to any other question is dropped.
	asked map[string]*openQuestion
}

// New returns the Peers of a proxy.
func New(bus Bus, o Options) *Peers {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	p := &Peers{
		bus: bus, channel: "lockproxy:peers", o: o, settings: newSettings(o.Settings),
		joined: make(chan struct{}), queue: make(chan message, mostWaiting),
		asked: make(map[string]*openQuestion),
	}
	if o.Fleet != "" {
		p.channel += "@" + o.Fleet
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Join has this proxy take part. It does not block, and may be called often.
func (p *Peers) Join() {
	if p == nil || p.began.Load() || p.began.Swap(true) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil {
		p.work.Go(p.takePart)        // ends with ctx
		p.work.Go(p.answerQuestions) // so does this
	}
}

// Close ends it.
func (p *Peers) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	p.work.Wait()
}

// takePart takes part until the end. It blocks, on a goroutine of Join.
func (p *Peers) takePart() {
	defer p.awaitSubscription(p.channel+":"+p.o.ID, p.heardAnswer)()
	if !p.o.Quiet {
		defer p.awaitSubscription(p.channel, p.heardQuestion)()
	}
	if p.ctx.Err() == nil {
		close(p.joined)
	}
	for p.ctx.Err() == nil {
		if !p.o.Quiet {
			p.publishMessage(p.ctx, p.channel, message{topic: announcing})
		}
		sleep.For(p.ctx, announceEach)
	}
}

// awaitSubscription returns when the subscription stands, or at the end. heard gets messages one after the
// other, and must not block.
func (p *Peers) awaitSubscription(channel string, heard func(payload []byte)) (cancel func()) {
	stands := make(chan struct{}, 1)
	cancel = p.bus.Subscribe(-1, channel, func(e subscription.Change) {
		switch {
		case e.Kind == subscription.Live && len(stands) == 0:
			stands <- struct{}{}
		case e.Kind == subscription.Refused:
			p.o.Log.Debug("this proxy does not hear what others ask about locks", "err", e.Err)
		case e.Kind == subscription.Message && len(e.Payload) <= 2*MostBytes:
			heard(e.Payload)
		}
	})
	select {
	case <-stands:
	case <-p.ctx.Done():
	}
	return cancel
}

// message is a question or an answer on its way.
type message struct {
	topic    string // "" for an answer
	question string // its id
	from     string // id of a proxy
	body     []byte
	settings []byte // digests of its settings; none: it does not tell them
}

// version stands in front of each message. Proxies drop those with another one; what is added to a message
// goes behind the rest of it.
const version = "1"

// encode makes m an array of RESP: version, topic, question, from, body, settings.
func (m message) encode() []byte {
	return resp.AppendCommandStrings(nil, version, m.topic, m.question, m.from, string(m.body),
		string(m.settings))
}

// decode reads what somebody has published. A message of an earlier version of lockproxy has no settings. ok
// also says that it is within the bounds. settings points into payload.
func decode(payload []byte) (m message, ok bool) {
	v, rest, err := resp.Parse(payload)
	if err != nil || len(rest) > 0 || len(v.Elems) < 5 || v.Elems[0].Text() != version {
		return m, false
	}
	m = message{topic: v.Elems[1].Text(), question: v.Elems[2].Text(), from: v.Elems[3].Text(),
		body: slices.Clone(v.Elems[4].Str)}
	if len(v.Elems) > 5 {
		m.settings = v.Elems[5].Str
	}
	return m, isID(m.from) && len(m.question) <= 64 && len(m.body) <= MostBytes
}

// isID says that text may be the id of a proxy.
func isID(text string) bool {
	return len(text) == 16 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// heardQuestion takes a question of somebody. It is queued even without an answer, if the other one should
// hear the settings of this proxy.
func (p *Peers) heardQuestion(payload []byte) {
	m, ok := decode(payload)
	if !ok || m.from == p.o.ID {
		return
	}
	news := p.settings.hearSettings(p.o.Log, m.from, m.settings)
	wanted := m.topic == announcing && len(m.settings) == 0
	if p.o.Handlers[m.topic] == nil && !news && !wanted {
		return
	}
	m.settings = nil
	select {
	case p.queue <- m:
	default: // they come too fast
		p.dropped.Add(1)
	}
}

// answerQuestions answers the questions of others, one after the other. Answers take time, and a subscription
// must not wait for them: hence the queue.
func (p *Peers) answerQuestions() {
	for {
		select {
		case m := <-p.queue:
			var body []byte
			if answer := p.o.Handlers[m.topic]; answer != nil {
				body = answer(m.body)
			}
			if len(body) > MostBytes {
				p.dropped.Add(1)
				continue
			}
			p.publishMessage(p.ctx, p.channel+":"+m.from, message{question: m.question, body: body})
		case <-p.ctx.Done():
			return
		}
	}
}

// publishMessage publishes m in the name of this proxy, with its settings unless it is Quiet. It may be sent
// twice: who hears it counts one answer of each proxy. An error is that of the connection.
func (p *Peers) publishMessage(ctx context.Context, channel string, m message) error {
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	if m.from = p.o.ID; !p.o.Quiet {
		m.settings = p.settings.text
	}
	req := resp.AppendCommandStrings(nil, "PUBLISH", channel, string(m.encode()))
	reply, err := p.bus.Do(ctx, slot.Of([]byte(channel)), req, true)
	if err == nil && resp.IsError(reply) {
		p.o.Log.Debug("other proxies cannot be asked about locks", "err", string(reply))
	}
	return err
}

// openQuestion is a question whose answers are waited for. Peers.mu guards it.
type openQuestion struct {
	wanted map[string]bool // proxies that have not answered
	got    map[string]bool
	all    []Answer
	bytes  int
	done   chan struct{} // closed once all have answered
}

// Dropped is how many questions of others were not answered: they came too fast, or the answer was too long.
func (p *Peers) Dropped() uint64 {
	if p == nil {
		return 0
	}
	return p.dropped.Load()
}

// Ask asks all other proxies that take part. silent are those of them that have not answered in time, or were
// not asked because too many questions are open. It blocks for Patience at most, and once for longer, while
// this proxy joins.
func (p *Peers) Ask(ctx context.Context, topic string, question []byte) (all []Answer, silent []string) {
	if p == nil || len(question) > MostBytes {
		return nil, nil
	}
	p.Join()
	select {
	case <-p.joined:
	case <-time.After(joinPatience):
		return nil, nil
	case <-ctx.Done():
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	others := p.others(ctx)
	if len(others) == 0 {
		return nil, nil
	}
	id := rand.Text()
	a := &openQuestion{wanted: others, got: make(map[string]bool), done: make(chan struct{})}
	if !p.noteQuestion(id, a) {
		return nil, slices.Sorted(maps.Keys(others))
	}
	if p.publishMessage(ctx, p.channel, message{topic: topic, question: id, body: question}) == nil {
		select {
		case <-a.done:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, id)
	return a.all, slices.Sorted(maps.Keys(a.wanted))
}

// noteQuestion notes a question, unless too many are open.
func (p *Peers) noteQuestion(id string, a *openQuestion) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) >= mostAsked {
		return false
	}
	p.asked[id] = a
	return true
}

// others are the proxies that take part, but for this one. A server that does not tell has none. Each node
// tells only who is subscribed there, so all masters are asked, at the same time.
func (p *Peers) others(ctx context.Context) map[string]bool {
	found := make(map[string]bool)
	var mu sync.Mutex
	var all sync.WaitGroup
	pattern := glob.Literal(p.channel) + ":*"
	for i := range p.bus.Masters() {
		all.Go(func() {
			req := resp.AppendCommandStrings(nil, "PUBSUB", "CHANNELS", pattern)
			reply, err := p.bus.DoMaster(ctx, i, req, true)
			v, _, bad := resp.Parse(reply)
			if err != nil || bad != nil || v.Kind != '*' {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, e := range v.Elems {
				id := strings.TrimPrefix(e.Text(), p.channel+":")
				if isID(id) && id != p.o.ID && len(found) < mostAnswers {
					found[id] = true
				}
			}
		})
	}
	all.Wait()
	return found
}

// heardAnswer takes an answer of somebody. Of each proxy the first one counts. One that PUBSUB has not told
// of counts, too, but is not waited for.
func (p *Peers) heardAnswer(payload []byte) {
	m, ok := decode(payload)
	if !ok || m.from == p.o.ID {
		return
	}
	p.settings.hearSettings(p.o.Log, m.from, m.settings)
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.asked[m.question]
	if a == nil || a.got[m.from] || len(a.all) >= mostAnswers || a.bytes+len(m.body) > mostAnswerBytes {
		return
	}
	a.got[m.from] = true
	a.bytes += len(m.body)
	a.all = append(a.all, Answer{m.from, m.body})
	if a.wanted[m.from] {
		if delete(a.wanted, m.from); len(a.wanted) == 0 {
			close(a.done)
		}
	}
}
