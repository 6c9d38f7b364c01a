package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"time"

	"lockproxy/internal/slot"
)

const (
	largeKeys    = 1_000_000
	largeKeySize = 100 // bytes
	largeWait    = 2 * time.Minute
)

// spreading is where the keys of a large command lie.
type spreading struct {
	name   string
	key    string // format of a key of largeKeySize bytes
	single bool   // before one Redis, not a cluster
}

var spreadings = []spreading{
	{"one slot", "{large}%093d", false},
	{"all slots", "%0100d", false},
	{"all slots of one Redis", "%0100d", true},
}

// large measures DEL of a million keys, none of which is there, so that Redis itself has least to do. All
// keys of one slot are deleted straight at their master; those of all slots, which no cluster takes in one
// command, at a plain Redis. A second lockproxy has that one behind it, and need not cut the command.
func large(ctx context.Context, y *yard, o options, rep *report) error {
	r := results{}
	for _, s := range spreadings {
		request := s.request()
		at := y.plain[0]
		if s.key[0] == '{' {
			at = y.masterOf(fmt.Sprintf(s.key, 0))
		}
		all := []contender{{name: y.direct.name, addr: at}}
		switch {
		case len(y.lockproxy) == 0:
		case s.single:
			c, _, err := y.startLockproxy(ctx, y.plain[:1], false)
			if err != nil {
				return err
			}
			all = append(all, c)
		default:
			all = append(all, y.lockproxy[0])
		}
		for round := range o.rounds {
			progress("round %d of %d: DEL of %d keys of %s", round+1, o.rounds, largeKeys, s.name)
			for _, c := range rotated(all, round) {
				got, err := timed(ctx, c, request)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, s.name, err)
				}
				r.add(s.name, c.name, got)
			}
		}
	}
	printLarge(rep, r, len(y.lockproxy) > 0)
	if len(y.lockproxy) == 0 {
		return nil
	}
	for _, s := range spreadings {
		rep.hold(atMost(1.5, "%.2f", fmt.Sprintf("DEL of %d keys of %s: time, against Redis itself",
			largeKeys, s.name),
			r.versus(s.name, "lockproxy", y.direct.name, p50)))
	}
	return nil
}

// request is the whole command.
func (s spreading) request() []byte {
	words := make([]string, 0, 1+largeKeys)
	words = append(words, "DEL")
	for i := range largeKeys {
		words = append(words, fmt.Sprintf(s.key, i))
	}
	return command(make([]byte, 0, (largeKeySize+10)*largeKeys), words...)
}

// masterOf is the master of the cluster that has a key.
func (y *yard) masterOf(key string) string { return y.masters[nodeOf(key)] }

// nodeOf is the number of the node of a cluster that has a key.
func nodeOf(key string) int {
	n := slot.Of([]byte(key))
	node := 0
	for n >= slots*(node+1)/nodes {
		node++
	}
	return node
}

// timed is how long one command takes, from its first byte to its reply.
func timed(ctx context.Context, c contender, request []byte) (sample, error) {
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return sample{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(largeWait))
	before, err := c.cpu()
	if err != nil {
		return sample{}, err
	}
	begin := time.Now()
	if _, err := conn.Write(request); err != nil {
		return sample{}, err
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	took := time.Since(begin)
	if err == nil && reply != ":0\r\n" {
		err = fmt.Errorf("answered %q", reply)
	}
	if err != nil {
		return sample{}, err
	}
	after, err := c.cpu()
	return sample{p50: took, cpu: after - before}, err
}

func printLarge(rep *report, r results, proxied bool) {
	t := table{{"", "direct ms", "lockproxy ms", "times", "proxy's CPU ms"}}
	for _, s := range spreadings {
		row := []string{s.name, fmt.Sprintf("%.0f", r.median(s.name, "direct", p50)/1000), "", "", ""}
		if proxied {
			row[2] = fmt.Sprintf("%.0f", r.median(s.name, "lockproxy", p50)/1000)
			row[3] = fmt.Sprintf("%.2f", r.ratio(s.name, "lockproxy", "direct", p50))
			row[4] = fmt.Sprintf("%.0f", r.median(s.name, "lockproxy", cpu)/1000)
		}
		t = append(t, row)
	}
	rep.printf("\n## DEL of %d keys of %d bytes\n\n%s\n", largeKeys, largeKeySize, t)
}
