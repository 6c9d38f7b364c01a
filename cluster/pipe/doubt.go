package pipe

import (
	"bytes"
	"strings"

	"lockproxy/cluster/retry"
	"lockproxy/internal/resp"
)

// This file is errors of scripts that are worded like those of Redis for what it did not run. A script that
// returns "CLUSTERDOWN Hash slot not served" has run, and would run again each time it is sent again. So the
// node is asked to run another script with the same keys, one that does nothing: if it refuses that, it has
// refused the first one. A replica lets that one run, so after READONLY the node is asked for its role. If
// Redis has not said it, the first script is sent once more, for a slot may have come to rest meanwhile, and
// then its error goes to the client.

// mayRepeat says that req, which may be sent twice, is to be: of what clients send, scripts that only read
// may, but what they say is for the client. What else may run twice is scripts of locks, which return no such
// words.
func mayRepeat(req []byte) bool {
	args := firstArgs(req, 1)
	return len(args) > 0 && !bytes.HasSuffix(bytes.ToUpper(args[0]), []byte("_RO"))
}

// doubt is a script whose error is in doubt. It keeps its place among the requests that wait. It implements
// Receiver for the question.
type doubt struct {
	*deferred
	p    *Pool
	pipe *Pipe
	said []byte
	role bool // it was asked for
}

// doubt asks the node of pipe, which answered c with reply. req aliases the log of pipe.
func (p *Pool) doubt(pipe *Pipe, c call, r *retry.Error, req, reply []byte) {
	c.to.Detour(c.tag)
	p.control.Refresh()
	d := &doubt{p: p, pipe: pipe, role: r.OfReplicas, deferred: &deferred{
		call: c, mode: pipe.mode.again(), addr: pipe.addr, req: lasting(req), reply: bytes.Clone(reply),
		inDoubt: true,
	}}
	p.waiting.add(d.deferred)
	switch {
	case d.role:
		pipe.append(d.question(), resp.AppendCommandStrings(nil, "ROLE"))
	case len(d.req) > doubtAtOnce:
		go func() { // ends by itself
			question := idle(d.req)
			p.loop.Post(func() { p.sendTo(p.pipe(d.addr, d.mode), d.question(), question) })
		}()
	default:
		pipe.append(d.question(), idle(d.req))
	}
}

// doubtAtOnce is how many bytes a request has at most that is taken apart on the loop.
const doubtAtOnce = 256 << 10

// question is the call of what the node is asked.
func (d *doubt) question() call {
	c := call{to: d, slot: thisNode, raw: true, deadline: d.deadline}
	if d.astray {
		c.before = sayAsking
	}
	return c
}

// idle is a script, or a function, of the same kind as that of req and with the same keys, that does nothing.
func idle(req []byte) []byte {
	args, _, err := resp.Split(req, nil)
	if err != nil || len(args) < 3 {
		return resp.AppendCommandStrings(nil, "PING")
	}
	n, _ := resp.Integer(args[2])
	last := 3 + int(max(0, min(n, int64(len(args)-3))))
	body := "return" // of EVAL
	switch word := strings.ToUpper(string(args[0])); {
	case strings.HasPrefix(word, "EVALSHA"):
		body = strings.Repeat("0", 40) // which no script has
	case strings.HasPrefix(word, "FCALL"):
		body = ""
	}
	same := append([][]byte{args[0], []byte(body)}, args[2:last]...)
	return resp.AppendCommand(nil, same...)
}

// Receive implements Receiver.
func (d *doubt) Receive(_ uint32, chunk []byte, last bool) {
	d.said = append(d.said, chunk...)
	if !last {
		return
	}
	switch {
	case d.refused() && d.p.waiting.first(d.deferred):
		d.p.waiting.remove(d.deferred)
		d.believed = true
		if !d.p.redirect(d.pipe, d.call, d.req, d.reply) {
			d.tell()
		}
	case d.refused():
		d.inDoubt, d.next = false, d.p.loop.Now()
		d.p.arm()
	case d.doubted:
		d.tell()
	default:
		d.doubted, d.ran = true, true
		d.inDoubt, d.next = false, d.p.loop.Now().Add(d.try.Pause())
		d.p.arm()
	}
}

// refused says that the error was of Redis, by the answer to the question. A node that does not tell its role
// may be a replica.
func (d *doubt) refused() bool {
	if d.role {
		return !bytes.HasPrefix(d.said, []byte("*3\r\n$6\r\nmaster\r\n"))
	}
	if d.said[0] != '-' {
		return false
	}
	r, _ := retry.ErrorOf(d.said)
	return r != nil && r.Verdict != retry.LoadScript
}

// tell gives the error to the client.
func (d *doubt) tell() {
	d.p.waiting.remove(d.deferred)
	reply := d.reply
	if isRedirect(reply) { // which a client would follow
		reply = append([]byte("-ERR "), reply[1:]...)
	}
	d.to.Receive(d.tag, reply, true)
}

// Fail implements Receiver.
func (d *doubt) Fail(uint32, error) { d.tell() }

// Discard implements Receiver.
func (d *doubt) Discard(uint32) bool {
	d.said = nil
	return true
}

// Detour implements Receiver.
func (d *doubt) Detour(uint32) {}
