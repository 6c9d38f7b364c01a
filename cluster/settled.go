package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"time"

	"lockproxy/internal/resp"
)

// ErrUntold wraps the answer of a node that never says what Settled asks for: it may not, or is too old.
var ErrUntold = errors.New("the node does not tell what connections wait for (CLIENT LIST)")

// ErrForgotten is why a connection is given up for which its node is settled.
var ErrForgotten = errors.New("the connection was forgotten on the way: a new one to the node works")

const (
	// SilentLong is how long a node owes a reply in silence before Settled should be asked.
	SilentLong = 500 * time.Millisecond
	// settledAgain is the pause between the two questions of Settled: time enough for what is on its way.
	settledAgain = 150 * time.Millisecond
)

// Settled asks the node at addr, over a fresh connection, about other connections to it, by their ids. It
// returns the addresses of those, by id, for which the node has nothing to do: it has read all that came from
// them, holds nothing back (as in CLIENT PAUSE, or in a command that blocks), and has no more of a reply to
// write. Whoever waits for a reply there waits in vain. What is on its way just now looks the same, so the
// node is asked twice. Needs Redis 6.2. It blocks until then, or until ctx ends. Without ids it only makes
// sure that the node answers.
func Settled(ctx context.Context, nodes NodeDialer, addr string, ids []string) (map[string]string, error) {
	var self Identity
	conn, err := nodes.Dial(ctx, addr, Mode{Proto: 2}, &self)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// the dial has shown that it answers
	if len(ids) == 0 {
		return nil, nil
	}
	if self.ID == "" { // what is said of this connection shows whether the rest can be believed
		return nil, ErrUntold
	}
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	first, err := settledOf(conn, self.ID, ids)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(settledAgain):
	}
	second, err := settledOf(conn, self.ID, ids)
	maps.DeleteFunc(first, func(id, addr string) bool { return second[id] != addr })
	return first, err
}

// settledOf asks once. The node is believed if it sees what it has to do for the connection that asks, self:
// what stands in for a Redis may make its lists up. BUSY and LOADING pass; other error replies mean that it
// never tells. addrs has the addresses by id, of the connections for which it has nothing to do.
func settledOf(conn net.Conn, self string, ids []string) (addrs map[string]string, err error) {
	args := append([]string{"CLIENT", "LIST", "ID", self}, ids...)
	if _, err := conn.Write(resp.AppendCommandStrings(nil, args...)); err != nil {
		return nil, err
	}
	reply, err := awaitReply(&resp.Reader{From: conn, Most: mostSaid})
	switch {
	case err != nil:
		return nil, err
	case bytes.HasPrefix(reply.Str, []byte("BUSY ")), bytes.HasPrefix(reply.Str, []byte("LOADING ")):
		return nil, Said(string(reply.Str))
	case reply.IsError():
		return nil, fmt.Errorf("%w: %s", ErrUntold, reply.Str)
	}
	addrs, seen := make(map[string]string), false
	for line := range strings.Lines(string(reply.Str)) {
		fields := fieldsOf(line)
		switch idle := settled(fields); {
		case idle:
			addrs[fields["id"]] = fields["addr"]
		case fields["id"] == self:
			seen = true
		}
	}
	if !seen {
		return nil, ErrUntold
	}
	return addrs, nil
}

// settled reads a line of CLIENT LIST, and says that the node has nothing to do for that connection: nothing
// unread (qbuf), no command half read (argv-mem), no reply to be written (obl, oll). Connections of others do
// not count. Flag b stands for what blocks or is held back, and u for what goes on.
func settled(fields map[string]string) bool {
	return fields["name"] == "lockproxy" && fields["flags"] != "" &&
		!strings.ContainsAny(fields["flags"], "bu") && fields["qbuf"] == "0" &&
		fields["argv-mem"] == "0" && fields["obl"] == "0" && fields["oll"] == "0"
}
