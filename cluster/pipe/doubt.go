package pipe

import (
	"bytes"
	"strings"

	"lockproxy/cluster/retry"
	"lockproxy/internal/resp"
)

// This file is about errors that scripts raise in words of Redis. A script that returns "CLUSTERDOWN Hash
// slot not served" has run, and would run again each time it is sent. So the node is asked to run another
// script with the same keys, which does nothing. If it refuses that one, it has refused the first one too. A
// replica would run it, so after READONLY the node is asked for its role instead. If the error was not of
// Redis, the first script is sent once more, since the slot may have stopped moving meanwhile; then its
// error goes to the client.

// doubt is a script whose error may or may not be of Redis. It keeps its place among the requests that wait.
type doubt struct {
	*deferred
	r    *retrier
	pipe *Pipe
	said []byte
	role bool // the node was asked for its role
}

// doubt asks the node of pipe, which answered c with reply. req aliases the log of pipe.
func (r *retrier) doubt(pipe *Pipe, c call, e *retry.Error, req, reply []byte) {
	c.alone, c.again = false, true
	c.to.Detour(c.tag)
	r.Refresh()
	d := &doubt{r: r, pipe: pipe, role: e.OfReplicas, deferred: &deferred{
		call: c, mode: pipe.mode.again(), addr: pipe.addr, req: lasting(req), reply: bytes.Clone(reply),
		inDoubt: true,
	}}
	r.waiting.add(d.deferred)
	switch {
	case d.role:
		pipe.append(d.question(), resp.AppendCommandStrings(nil, "ROLE"))
	case len(d.req) > doubtAtOnce:
		go func() { // ends by itself
			question := idle(d.req)
			r.loop.Post(func() { r.nodes.sendTo(r.nodes.pipe(d.addr, d.mode), d.question(), question) })
		}()
	default:
		pipe.append(d.question(), idle(d.req))
	}
}

// doubtAtOnce is how long a request may be that is parsed on the loop.
const doubtAtOnce = 256 << 10

// question is the call that asks the node.
func (d *doubt) question() *call {
	c := &call{to: &Collector{Then: d.answered}, slot: thisNode, raw: true, ours: true, came: d.came}
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

// answered takes the answer.
func (d *doubt) answered(reply []byte, err error) {
	if err != nil {
		d.tell()
		return
	}
	d.said = reply
	switch {
	case d.refused() && d.r.waiting.first(d.deferred):
		d.r.waiting.remove(d.deferred)
		d.believed = true
		if !d.r.redirect(d.pipe, d.call, d.req, d.reply) {
			d.tell()
		}
	case d.refused():
		d.inDoubt, d.next = false, d.r.loop.Now()
		d.r.arm()
	case d.doubted:
		d.tell()
	default:
		d.doubted, d.ran = true, true
		d.inDoubt, d.next = false, d.r.loop.Now().Add(d.try.Pause())
		d.r.arm()
	}
}

// refused says that the error was of Redis, as the answer to the question shows. A node that does not tell
// its role may be a replica.
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
	d.r.waiting.remove(d.deferred)
	d.to.Receive(d.tag, plainError(d.reply), true)
}
