package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/rig"
)

// door is how a client reaches Redis.
type door interface {
	// run runs a command, or several as a transaction, of which the answer is that of EXEC. An error is of
	// the connection.
	run(commands ...[]string) (rig.Reply, error)
	close()
}

// unsent is an error of a connection over which nothing was sent.
type unsent struct{ error }

func isRefusal(err error) bool {
	var e *unsent
	return errors.As(err, &e)
}

const (
	// deaf is how long a reply may take: more than the proxy may keep a command.
	deaf = 40 * time.Second
	// stubborn is how long a client that tries again tries to connect.
	stubborn = time.Second
)

// plain is a client that speaks RESP over one connection, and knows nothing of clusters.
type plain struct {
	addr  string
	again bool // a command whose connection was lost, or that is to come later, is sent once more
	conn  *rig.Conn
}

func (p *plain) close() {
	if p.conn != nil {
		p.conn.Close()
		p.conn = nil
	}
}

func (p *plain) run(commands ...[]string) (v rig.Reply, err error) {
	v, err = p.once(commands)
	if !p.again || err == nil && !later(v) {
		return v, err
	}
	for end := time.Now().Add(stubborn); ; {
		time.Sleep(20 * time.Millisecond)
		if v, err = p.once(commands); !isRefusal(err) || time.Now().After(end) {
			return v, err
		}
	}
}

// later says that the command was not run, and may be sent again over another connection.
func later(v rig.Reply) bool { return v.IsError("TRYAGAIN") || v.IsError("LOADING") }

func (p *plain) once(commands [][]string) (last rig.Reply, err error) {
	if p.conn == nil {
		if p.conn, err = rig.Dial(p.addr); err != nil {
			p.conn = nil
			return last, &unsent{err}
		}
	}
	if len(commands) > 1 {
		commands = append(append([][]string{{"MULTI"}}, commands...), []string{"EXEC"})
	}
	err = pipeline(p.conn, commands, func(_ int, v rig.Reply) { last = v })
	if err != nil || later(last) {
		p.close()
	}
	return last, err
}

// pipeline sends commands at once, and says of each what came back.
func pipeline(c *rig.Conn, commands [][]string, got func(i int, v rig.Reply)) error {
	var out []byte
	for _, args := range commands {
		out = append(out, rig.Encode(args...)...)
	}
	sent := make(chan error, 1)
	go func() { _, err := c.Write(out); sent <- err }() // ends with the connection at the latest
	for i := range commands {
		v, err := c.Receive(deaf)
		if err != nil {
			return err
		}
		got(i, v)
	}
	return <-sent
}

// library is a client of go-redis, which may be shared by all workers, as in a program.
type library struct{ client redis.UniversalClient }

func (l library) close() { l.client.Close() } // more than once does no harm

func (l library) run(commands ...[]string) (rig.Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deaf)
	defer cancel()
	if len(commands) == 1 {
		return replyOf(l.client.Do(ctx, boxed(commands[0])...).Result())
	}
	_, err := l.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, args := range commands {
			p.Do(ctx, boxed(args)...)
		}
		return nil
	})
	return replyOf(nil, err)
}

func boxed(args []string) []any {
	all := make([]any, len(args))
	for i, a := range args {
		all[i] = a
	}
	return all
}

// replyOf is a reply of go-redis, whose errors of connections say nothing of what has run.
func replyOf(v any, err error) (rig.Reply, error) {
	var said redis.Error
	switch {
	case errors.Is(err, redis.Nil):
		return rig.Reply{Null: true}, nil
	case errors.As(err, &said):
		return rig.Reply{Kind: '-', Text: said.Error()}, nil
	case err != nil:
		return rig.Reply{}, err
	}
	list, ok := v.([]any)
	if !ok {
		return rig.Reply{Text: fmt.Sprint(v)}, nil
	}
	r := rig.Reply{Kind: '*'}
	for _, e := range list {
		r.Elems = append(r.Elems, rig.Reply{Text: fmt.Sprint(e)})
	}
	return r, nil
}

// quiet keeps go-redis from logging what is expected here: whoever runs faults sets it as its logger.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
