package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// This file is what the masters are asked for others.

// limitsTimeout ends the question for limits, which is asked once, so it may take longer than others.
const limitsTimeout = 2 * time.Second

// masterAnswers are the answers of one master.
type masterAnswers struct {
	addr string
	said []resp.Value
}

// askMasters asks all masters. Those that do not answer are left out. It blocks until ctx ends at most. The
// answers come in no order, error replies among them.
func (u *Upstream) askMasters(ctx context.Context, questions ...[]any) []masterAnswers {
	all, _ := gather(ctx, u.asker, addrs(u.Topology().Masters), nil, limitsTimeout,
		func(ctx context.Context, addr string) (masterAnswers, error) {
			said, err := u.asker.askNode(ctx, addr, u.o.Logins, questions...)
			return masterAnswers{addr, said}, err
		})
	return all
}

// Memories asks all masters about their memory, by address. Those that do not answer are left out. It blocks
// until ctx ends at most, and no longer than one question may take.
func (u *Upstream) Memories(ctx context.Context) map[string]cluster.Memory {
	ctx, cancel := u.asker.limit(ctx)
	defer cancel()
	all := make(map[string]cluster.Memory)
	for _, m := range u.askMasters(ctx, cluster.MemoryQuestion) {
		all[m.addr] = cluster.MemoryOf(m.said[0])
	}
	return all
}

// Limits asks all masters. Those that do not answer or do not allow the question are left out. It blocks
// until ctx ends at most. The lowest of all counts, because a command may go to any of them.
func (u *Upstream) Limits(ctx context.Context) (l cluster.Limits) {
	ctx, cancel := context.WithTimeout(ctx, limitsTimeout)
	defer cancel()
	for _, m := range u.askMasters(ctx, []any{"CONFIG", "GET", "proto-max-bulk-len"},
		[]any{"CONFIG", "GET", "client-query-buffer-limit"}) {
		l.Bulk, l.Buffer = lower(l.Bulk, setting(m.said[0])), lower(l.Buffer, setting(m.said[1]))
	}
	return l
}

// setting is the number in a reply to CONFIG GET of one parameter, 0 if there is none.
func setting(v resp.Value) int {
	if v.IsError() || len(v.Elems) != 2 {
		return 0
	}
	n, _ := strconv.Atoi(v.Elems[1].Text())
	return n
}

// lower is the lower of two numbers; 0 stands for no number. Servers that do not tell their limit do not
// lower that of others.
func lower(a, b int) int {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// Command asks a master for its command table: the RESP2 reply of COMMAND, byte
// for byte. It blocks until ctx ends at most.
func (u *Upstream) Command(ctx context.Context) (command []byte, err error) {
	err = errors.New("cluster: no master is known")
	for _, n := range u.Topology().Masters {
		if command, err = u.commandOf(ctx, n.Addr); err == nil || ctx.Err() != nil {
			break
		}
	}
	return command, err
}

// commandOf is Command for one master. Its error says what the user of the upstream lacks, because the proxy
// cannot serve without an answer.
func (u *Upstream) commandOf(ctx context.Context, addr string) ([]byte, error) {
	replies, err := u.asker.replies(ctx, addr, u.o.Logins, []any{"COMMAND"})
	if err != nil {
		return nil, cluster.NodeError{Addr: addr, Err: err}
	}
	if resp.Forbidden(replies[0]) {
		return nil, cluster.NodeError{Addr: addr, Err: cluster.Refusal(
			strings.TrimSpace(string(replies[0][1:])) + ": lockproxy learns by COMMAND which arguments are " +
				"keys, and cannot do without: let the upstream's user run it (+command)")}
	}
	v, _, err := resp.Parse(replies[0])
	if err != nil || v.Kind != '*' {
		return nil, cluster.NodeError{Addr: addr,
			Err: fmt.Errorf("COMMAND: %s", cmp.Or(string(v.Str), fmt.Sprint(err)))}
	}
	return replies[0], nil
}
