package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

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
	client := u.o.newClient(addr, login{u.o.User, u.o.Password})
	defer client.Close()
	table := redis.NewRawCmd(ctx, "COMMAND")
	if err := client.Process(ctx, table); err != nil {
		return nil, nodeError{addr, err}
	}
	v, _, err := resp.Parse(table.Val())
	if err != nil || v.Kind != '*' {
		return nil, nodeError{addr, fmt.Errorf("COMMAND: %s", cmp.Or(string(v.Str), fmt.Sprint(err)))}
	}
	return table.Val(), nil
}
