package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/rig"
)

// door is how a client reaches Redis.
type door interface {
	// run runs a command, or several as a transaction, of which the answer is that of EXEC. An error is of
	// the connection.
	run(commands ...[]string) (answer, error)
	close()
}

// answer is a reply as workers want it.
type answer struct {
	text  string
	elems []string
	null  bool
	fail  string // the text of an error reply
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

func (p *plain) run(commands ...[]string) (a answer, err error) {
	a, err = p.once(commands)
	if !p.again || err == nil && !a.later() {
		return a, err
	}
	for end := time.Now().Add(stubborn); ; {
		time.Sleep(20 * time.Millisecond)
		if a, err = p.once(commands); !isRefusal(err) || time.Now().After(end) {
			return a, err
		}
	}
}

// later says that the command was not run, and may be sent again over another connection.
func (a answer) later() bool {
	return strings.HasPrefix(a.fail, "TRYAGAIN ") || strings.HasPrefix(a.fail, "LOADING ")
}

func (p *plain) once(commands [][]string) (a answer, err error) {
	if p.conn == nil {
		if p.conn, err = rig.Dial(p.addr); err != nil {
			p.conn = nil
			return a, &unsent{err}
		}
	}
	if len(commands) > 1 {
		commands = append(append([][]string{{"MULTI"}}, commands...), []string{"EXEC"})
	}
	err = pipeline(p.conn, commands, func(_ int, v rig.Reply) { a = answerOf(v) })
	if err != nil || a.later() {
		p.close()
	}
	return a, err
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

func answerOf(v rig.Reply) answer {
	if v.IsError() {
		return answer{fail: v.Text}
	}
	return answer{text: v.Text, elems: v.Strings(), null: v.Null}
}

// library is a client of go-redis, which may be shared by all workers, as in a program.
type library struct{ client redis.UniversalClient }

func (l library) close() { l.client.Close() } // more than once does no harm

func (l library) run(commands ...[]string) (answer, error) {
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
func replyOf(v any, err error) (a answer, _ error) {
	var said redis.Error
	switch {
	case errors.Is(err, redis.Nil):
		return answer{null: true}, nil
	case errors.As(err, &said):
		return answer{fail: said.Error()}, nil
	case err != nil:
		return a, err
	}
	list, ok := v.([]any)
	if !ok {
		return answer{text: fmt.Sprint(v)}, nil
	}
	for _, e := range list {
		a.elems = append(a.elems, fmt.Sprint(e))
	}
	return a, nil
}

// quiet keeps go-redis from logging what is expected here: whoever runs faults sets it as its logger.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
