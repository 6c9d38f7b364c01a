package commands

import (
	"errors"
	"fmt"
	"testing"

	"lockproxy/cluster"
)

// What no node took begins with a word by which clients try again, unless a node refuses for a reason that
// stays, or it may have run.
func TestUntakenWords(t *testing.T) {
	at := func(err error) error { return cluster.NodeError{Addr: "10.0.0.1:1", Err: err} }
	const late = "no node took it in time: the command was not run: "
	const part = "no node took a part of the command in time, and its other parts may have run: "
	moves := &cluster.Untaken{Why: errors.New("it moves"), Nodes: true}
	for _, c := range []struct {
		err  error
		want string
	}{
		{cluster.NotTaken(cluster.ErrUnavailable, at(errors.New("dial: connection refused")), false),
			"-CLUSTERDOWN " + late + "dial: connection refused\r\n"},
		{cluster.NotTaken(cluster.ErrUnavailable, at(errors.New("LOADING Redis is loading")), false),
			"-LOADING " + late + "LOADING Redis is loading\r\n"},
		{cluster.NotTaken(cluster.ErrUnavailable, errors.New("it moves"), true),
			"-TRYAGAIN " + late + "it moves\r\n"},
		{cluster.NotTaken(cluster.ErrUnavailable, at(errors.New("WRONGPASS no")), false),
			"-ERR " + late + "WRONGPASS no (check the upstream's user and password)\r\n"},
		{cluster.NotTaken(cluster.ErrUnknownOutcome, errors.New("gone"), false),
			"-ERR no node took it in time: the connection was lost after the command was sent: " +
				"it may or may not have run: gone\r\n"},
		{moves.OfPart(false), "-ERR " + part + "it moves\r\n"},
		{moves.OfPart(true), "-TRYAGAIN " + part + "it moves\r\n"},
		{fmt.Errorf("lock: %w", &cluster.Untaken{Why: errors.New("refused")}),
			"-CLUSTERDOWN lock: " + late + "refused\r\n"},
	} {
		if got := string(ErrorReply(c.err)); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
