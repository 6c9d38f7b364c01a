package faults

import (
	"crypto/sha1"
	"fmt"
	"math/rand/v2"
	"strings"

	"lockproxy/integration/rig"
)

// identityClient is one connection of TestRepliesNameTheirRequests, with the pipeline that it sends.
type identityClient struct {
	*rig.Conn
	w     *identityWorld
	dice  *rand.Rand
	name  string
	count int

	out   []byte
	wants []identityWant
	drips int // below 2: the pipeline is not sent at once

	// As it is behind the pipeline.
	proto    int
	listens  bool
	tracking bool
}

// identityWant is one reply that is due.
type identityWant struct {
	what     string
	ok       func(rig.Reply) bool
	mayFail  bool // an error may be what became of it
	hears    bool // messages may come as arrays before it
	confirms bool // it may be a push
}

// unique is a value that only this request has.
func (p *identityClient) unique() string {
	p.count++
	return fmt.Sprintf("%s:%d", p.name, p.count)
}

// key is one of a few keys of this connection.
func (p *identityClient) key() string { return fmt.Sprintf("%s:k%d", p.name, p.dice.IntN(4)) }

// ask adds a request whose reply ok knows; a node may answer it with an error.
func (p *identityClient) ask(ok func(rig.Reply) bool, args ...string) {
	p.out = append(p.out, rig.Encode(args...)...)
	p.want(ok, args...)
}

func (p *identityClient) want(ok func(rig.Reply) bool, args ...string) {
	what := fmt.Sprintf("%.120q", args)
	p.wants = append(p.wants,
		identityWant{what: what, ok: ok, mayFail: true, hears: p.listens && p.proto == 2})
}

// sure says that the latest request is answered by the proxy itself, and never with an error.
func (p *identityClient) sure() { p.wants[len(p.wants)-1].mayFail = false }

func is(text string) func(rig.Reply) bool {
	return func(v rig.Reply) bool { return !v.Null && v.Text == text && len(v.Elems) == 0 }
}

// isList says that v is an array of these texts.
func isList(v rig.Reply, texts ...string) bool {
	if len(v.Elems) != len(texts) {
		return false
	}
	for i, text := range texts {
		if v.Elems[i].Text != text {
			return false
		}
	}
	return true
}

func (p *identityClient) set(key, value string) {
	p.ask(is("OK"), "SET", key, value)
}

// has says that v is some value of key. It need not be the latest: a read that is sent again, since its reply
// was lost, may see what the client has written behind it.
func (p *identityClient) has(key string, v rig.Reply) bool {
	return v.Null || strings.HasPrefix(v.Text, key+"=")
}

func (p *identityClient) get(key string) {
	p.ask(func(v rig.Reply) bool { return p.has(key, v) }, "GET", key)
}

// step adds something to the pipeline.
func (p *identityClient) step() {
	p.drips = p.dice.IntN(12)
	steps := []func(){
		p.echo, p.echo, p.setAndGet, p.setAndGet, p.setAndGet, p.nested, p.bigScript, p.bySHA,
		p.acrossSlots, p.acrossSlots,
		p.transaction, p.transaction, p.blocking, p.silent, p.hello, p.reset, p.database,
		p.subscription, p.subscription,
		p.lock, p.login, p.track, p.inline, p.large,
	}
	steps[p.dice.IntN(len(steps))]()
}

func (p *identityClient) echo() {
	u := p.unique()
	p.ask(is(u), "ECHO", u)
	p.sure()
}

func (p *identityClient) inline() {
	u := p.unique()
	p.out = append(p.out, ("ECHO " + u + "\r\n")...)
	p.want(is(u), "inline ECHO", u)
	p.sure()
}

func (p *identityClient) setAndGet() {
	key := p.key()
	p.get(key)
	p.set(key, key+"="+p.unique())
	p.get(key)
}

func (p *identityClient) nested() {
	u, key := p.unique(), p.key()
	p.ask(func(v rig.Reply) bool {
		return len(v.Elems) == 2 && v.Elems[0].Text == u && len(v.Elems[1].Elems) == 2 &&
			v.Elems[1].Elems[0].Text == key &&
			isList(v.Elems[1].Elems[1], u, "1")
	}, "EVAL", "return {ARGV[1], {KEYS[1], {ARGV[1], 1}}}", "1", key, u)
}

func (p *identityClient) bigScript() {
	u, n := p.unique(), 1+p.dice.IntN(10000)
	p.ask(is(strings.Repeat(u, n)), "EVAL", "return string.rep(ARGV[1], ARGV[2])", "1", p.key(), u,
		fmt.Sprint(n))
}

// bySHA runs a script that nodes may have lost since it was sent.
func (p *identityClient) bySHA() {
	u, source := p.unique(), fmt.Sprintf("return '%d:' .. ARGV[1]", p.dice.IntN(20))
	said := strings.Split(source, "'")[1]
	p.ask(is(said+u), "EVAL", source, "1", p.key(), u)
	p.ask(is(said+u), "EVALSHA", fmt.Sprintf("%x", sha1.Sum([]byte(source))), "1", p.key(), u)
}

func (p *identityClient) acrossSlots() {
	keys := []string{p.key() + "a", p.key() + "b", p.key() + "c"}
	values := []string{keys[0] + "=" + p.unique(), keys[1] + "=" + p.unique(), keys[2] + "=" + p.unique()}
	p.ask(is("OK"), "MSET", keys[0], values[0], keys[1], values[1], keys[2], values[2])
	p.ask(func(v rig.Reply) bool {
		return len(v.Elems) == 3 && p.has(keys[0], v.Elems[0]) && p.has(keys[1], v.Elems[1]) &&
			p.has(keys[2], v.Elems[2])
	}, append([]string{"MGET"}, keys...)...)
	if p.dice.IntN(2) == 0 {
		p.ask(func(v rig.Reply) bool {
			return v.Kind == ':' && v.Int() >= 0 && v.Int() <= 3
		}, append([]string{"DEL"}, keys...)...)
	}
}

func (p *identityClient) transaction() {
	key := "{" + p.name + "}" + p.unique()
	value := key + "=" + p.unique()
	watches := p.dice.IntN(2) == 0
	if watches {
		p.ask(is("OK"), "WATCH", key)
	}
	p.ask(is("OK"), "MULTI")
	p.ask(is("QUEUED"), "SET", key, value)
	p.ask(is("QUEUED"), "GET", key)
	if p.dice.IntN(5) == 0 {
		p.ask(is("OK"), "DISCARD")
		return
	}
	p.ask(func(v rig.Reply) bool { return v.Null || isList(v, "OK", value) }, "EXEC")
}

func (p *identityClient) blocking() {
	list, u := p.key()+":list:"+p.unique(), p.unique()
	p.ask(is("1"), "RPUSH", list, u)
	p.ask(func(v rig.Reply) bool { return v.Null || isList(v, list, u) }, "BLPOP", list, "0.3")
	if p.dice.IntN(4) == 0 {
		p.ask(func(v rig.Reply) bool { return v.Null || isList(v, list, u) }, "BLPOP", list, "0.01")
	}
}

func (p *identityClient) silent() {
	on, off := rig.Encode("CLIENT", "REPLY", "ON"), rig.Encode("CLIENT", "REPLY", "OFF")
	if p.dice.IntN(2) == 0 {
		p.out = append(append(p.out, rig.Encode("CLIENT", "REPLY", "SKIP")...),
			rig.Encode("ECHO", "nobody hears this")...)
		p.echo()
		return
	}
	p.out = append(append(p.out, off...), rig.Encode("ECHO", "nobody hears this")...)
	p.out = append(p.out, rig.Encode("SET", p.name+":silent", "x")...)
	p.out = append(p.out, on...)
	p.want(is("OK"), "CLIENT REPLY ON")
	p.sure()
}

func (p *identityClient) hello() {
	proto := 2 + p.dice.IntN(2)
	if p.listens { // commands of RESP2 would be barred
		proto = 3
	}
	if p.tracking {
		proto = p.proto
	}
	want := fmt.Sprint(proto)
	p.ask(func(v rig.Reply) bool { return v.Field("proto").Text == want && (v.Kind == '%') == (proto == 3) },
		"HELLO", want)
	p.proto = proto
	p.sure()
}

func (p *identityClient) reset() {
	p.ask(func(v rig.Reply) bool { return v.Kind == '+' && v.Text == "RESET" }, "RESET")
	p.sure()
	p.proto, p.listens, p.tracking = 2, false, false
	p.echo()
}

func (p *identityClient) database() {
	if !p.w.single {
		p.ask(is("OK"), "SELECT", "0")
		return
	}
	key := p.key() + ":other"
	p.ask(is("OK"), "SELECT", "1")
	p.set(key, key+"="+p.unique())
	p.get(key)
	p.ask(is("OK"), "SELECT", "0")
}

// subscription listens to a channel. In RESP2 it ends that at once, since a client that listens may not do
// much else.
func (p *identityClient) subscription() {
	channel, u := identityChannel(p.dice.IntN(identityChannels)), p.unique()
	confirms := func(word string) func(rig.Reply) bool {
		return func(v rig.Reply) bool {
			return len(v.Elems) == 3 && v.Elems[0].Text == word && v.Elems[1].Text == channel
		}
	}
	p.ask(confirms("subscribe"), "SUBSCRIBE", channel)
	p.wants[len(p.wants)-1].confirms = true
	p.listens = true
	if p.proto == 2 {
		p.ask(func(v rig.Reply) bool { return v.Text == u || isList(v, "pong", u) }, "PING", u)
	} else {
		p.echo()
		if p.dice.IntN(2) == 0 {
			p.reset()
			return
		}
	}
	p.ask(confirms("unsubscribe"), "UNSUBSCRIBE", channel)
	p.wants[len(p.wants)-1].confirms = true
	p.listens = false
}

func (p *identityClient) lock() {
	name, token := p.name+":lock:"+p.unique(), p.unique()
	args := []string{"LOCK", name, "TOKEN", token, "PX", "3000"}
	if p.dice.IntN(2) == 0 {
		args = append(args, "WAIT", "200")
	}
	if p.dice.IntN(2) == 0 {
		args = append(args, "KEEPALIVE")
	}
	p.ask(func(v rig.Reply) bool { return len(v.Elems) == 4 && v.Elems[0].Text == token }, args...)
	p.ask(func(v rig.Reply) bool { return v.Null || v.Kind == ':' }, "UNLOCK", name, token)
}

func (p *identityClient) login() {
	p.ask(is("OK"), "AUTH", "other", "pw")
	p.setAndGet()
	p.ask(is("OK"), "AUTH", "default", "any")
}

func (p *identityClient) track() {
	if p.proto == 2 {
		return
	}
	p.ask(is("OK"), "CLIENT", "TRACKING", "ON")
	p.setAndGet()
	p.ask(is("OK"), "CLIENT", "TRACKING", "OFF")
}

// large sends what no connection carries that clients share.
func (p *identityClient) large() {
	if p.dice.IntN(4) > 0 {
		return
	}
	key, n := p.key(), 1<<20+p.dice.IntN(1<<20)
	value := key + "=" + p.unique() + strings.Repeat("L", n)
	p.set(key, value)
	p.ask(func(v rig.Reply) bool { return v.Kind == ':' }, "STRLEN", key)
	p.set(key, key+"="+p.unique())
	p.get(key)
}
