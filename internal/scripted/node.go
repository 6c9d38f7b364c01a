// Package scripted is the Redis of tests that need none: it takes the commands of a connection apart, and the
// test answers them. Nothing but tests imports it.
//
//	Node.Dial --> net.Pipe --> Each: bytes --> words --> answer --> reply
//
// It starts no timers and listens nowhere, so that it runs in a bubble of fake time.
package scripted

import (
	"io"
	"net"
	"strings"
	"sync"

	"lockproxy/internal/resp"
)

// Each gives answer the words of each command that comes over nc, until answer says false, the connection
// ends, or what comes is no command. partly, if not nil, is called when a part of a command has come only,
// and may end it as well. Each does not close nc.
func Each(nc net.Conn, answer func(words []string) bool, partly func() bool) {
	var pending []byte // of which so much is known not to be the whole of a command
	var frame resp.Framer
	framed := 0
	for buf := make([]byte, 16<<10); ; {
		n, err := nc.Read(buf)
		if err != nil {
			return
		}
		pending = append(pending, buf[:n]...)
		for {
			n, whole, err := frame.Next(pending[framed:])
			if err != nil {
				return
			}
			if framed += n; !whole {
				break
			}
			v, _, err := resp.Parse(pending[:framed])
			if err != nil {
				return
			}
			pending, framed = pending[framed:], 0
			words := make([]string, len(v.Elems))
			for i, e := range v.Elems {
				words[i] = string(e.Str)
			}
			if !answer(words) {
				return
			}
		}
		if len(pending) > 0 && partly != nil && !partly() {
			return
		}
	}
}

// Silence and Cut are what Node.Answer returns in place of a reply.
const (
	Silence = "-" // no reply comes
	Cut     = ""  // the connection ends
)

// Node is one scripted Redis. Its connections are served side by side. Unless one has been silent once,
// Prove answers there.
type Node struct {
	// Answer is the reply to a command, which is a line of its words.
	Answer func(command string) string
	// Hasty, if not "", is said once, to a command of which only a part has come.
	Hasty string

	mu   sync.Mutex
	seen []string
}

// Dial is a new connection to the node.
func (n *Node) Dial() net.Conn {
	here, there := net.Pipe()
	go n.Serve(there) // ends when here is closed
	return here
}

// Serve answers the commands of one connection, and closes it.
func (n *Node) Serve(nc net.Conn) {
	defer nc.Close()
	silent := false
	Each(nc, func(words []string) bool {
		if reply := Prove(words); reply != "" {
			return silent || Write(nc, reply)
		}
		line := strings.Join(words, " ")
		n.mu.Lock()
		n.seen = append(n.seen, line)
		n.mu.Unlock()
		reply := n.Answer(line)
		silent = silent || reply == Silence
		return Write(nc, reply)
	}, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		io.WriteString(nc, n.Hasty)
		n.Hasty = ""
		return true
	})
}

// Prove is the answer to a question by which a proxy finds out whether replies belong to their requests: PING
// with 16 digits. It is "" to other commands.
func Prove(words []string) string {
	if len(words) != 2 || words[0] != "PING" || len(words[1]) != 16 {
		return ""
	}
	return string(resp.AppendBulks(nil, words[1]))
}

// Write writes what Answer returned. It says false where the connection is to end.
func Write(nc net.Conn, reply string) bool {
	switch reply {
	case Cut:
		return false
	case Silence:
		return true
	}
	_, err := io.WriteString(nc, reply)
	return err == nil
}

// Commands is what the node was sent, in the order in which it came: lines with commas between them.
func (n *Node) Commands() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.seen, ", ")
}
