package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

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
