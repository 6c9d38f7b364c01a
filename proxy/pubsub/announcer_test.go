package pubsub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"lockproxy/cluster"
	"lockproxy/cluster/pubsub"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// audience is what masters and a replica say: each is "subscribers patterns heard", and a fourth word is what
// it says to PUBLISH instead. It implements Asked, and is an Upstream to which nobody listens.
type audience struct {
	Upstream
	mu        sync.Mutex
	masters   map[string]string
	later     map[string]string // what they say behind PUBLISH
	published []string
}

func (a *audience) Home() string                       { return "b" }
func (a *audience) Topics(pubsub.Kind) []*pubsub.Topic { return nil }

func (a *audience) Concerned([]byte, bool, int) (_ []*pubsub.Topic, steps int) { return nil, 1 }

func (a *audience) Topology() *cluster.Topology {
	t := new(cluster.Topology)
	for _, addr := range []string{"a", "b", "c"} {
		if a.masters[addr] != "" {
			t.Masters = append(t.Masters, &cluster.Node{Addr: addr, Master: true})
		}
	}
	if a.masters["replica"] != "" {
		t.Replicas = []*cluster.Node{{Addr: "replica", Follows: "a"}}
	}
	if len(t.Masters) > 1 {
		t.Kind = cluster.Cluster
	}
	return t
}

func (a *audience) DoNode(_ context.Context, addr string, req []byte, resend bool) ([]byte, error) {
	v, _, _ := resp.Parse(req)
	words := make([]string, len(v.Elems))
	for i, e := range v.Elems {
		words[i] = e.Text()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	says := strings.Fields(a.masters[addr])
	switch {
	case words[0] == "PUBSUB" && says[0] == "away" && resend:
		return nil, fmt.Errorf("%w: away", cluster.ErrUnavailable)
	case words[0] == "PUBSUB" && words[1] == "NUMSUB" && resend:
		return []byte("*2\r\n$1\r\nc\r\n:" + says[0] + "\r\n"), nil
	case words[0] == "PUBSUB" && words[1] == "NUMPAT" && resend:
		return []byte(":" + says[1] + "\r\n"), nil
	case words[0] != "PUBLISH" || resend:
		return nil, errors.New("not expected")
	}
	a.published = append(a.published, addr)
	if a.later != nil {
		a.masters = a.later
	}
	switch says[len(says)-1] {
	case "lost":
		return nil, cluster.ErrUnknownOutcome
	case "refused":
		return []byte("-NOPERM no\r\n"), nil
	case "unsent":
		return nil, cluster.ErrUnavailable
	}
	return []byte(":" + says[2] + "\r\n"), nil
}

// Whoever is told is counted at whatever master it is, and what nobody knows is never taken for nobody.
func TestAnnounce(t *testing.T) {
	nobody := map[string]string{"a": "0 0 0", "b": "0 0 0", "c": "0 0 0"}
	tests := []struct {
		name    string
		masters map[string]string
		later   map[string]string
		want    commands.Heard
		at      string // "": it is not published
	}{
		{"one Redis, nobody", map[string]string{"a": "away 0 0"}, nil, commands.Unheard, "a"},
		{"one Redis, somebody", map[string]string{"a": "away 0 1"}, nil, commands.Told, "a"},
		{"one Redis, lost", map[string]string{"a": "0 0 0 lost"}, nil, commands.InDoubt, "a"},
		{"one Redis, refused", map[string]string{"a": "0 0 0 refused"}, nil, commands.Unsent, "a"},
		{"one Redis, away", map[string]string{"a": "0 0 0 unsent"}, nil, commands.Unsent, "a"},
		{"no master", nil, nil, commands.Unsent, ""},
		{"nobody", nobody, nil, commands.Unheard, "b"},
		{"at home", map[string]string{"a": "0 0 0", "b": "1 0 1", "c": "0 0 0"}, nil, commands.Told, "b"},
		{"elsewhere", map[string]string{"a": "0 0 0", "b": "0 0 0", "c": "1 0 1"}, nil, commands.Told, "c"},
		{"there and at home", map[string]string{"a": "1 0 1", "b": "1 0 1", "c": "0 0 0"}, nil,
			commands.Told, "b"},
		{"by a pattern", map[string]string{"a": "0 1 1", "b": "0 0 0", "c": "0 0 0"}, nil,
			commands.Told, "a"},
		{"no pattern fits", map[string]string{"a": "0 1 0", "b": "0 0 0", "c": "0 0 0"}, nil,
			commands.Unheard, "a"},
		{"patterns at two", map[string]string{"a": "0 1 0", "b": "0 1 0", "c": "0 0 0"}, nil,
			commands.InDoubt, "b"},
		{"gone meanwhile", map[string]string{"a": "0 0 0", "b": "0 0 0", "c": "1 0 0"}, nobody,
			commands.Unheard, "c"},
		{"heard and left", map[string]string{"a": "1 0 1", "b": "1 0 0", "c": "0 0 0"}, nobody,
			commands.Told, "b"},
		{"moved meanwhile", nobody, map[string]string{"a": "1 0 0", "b": "0 0 0", "c": "0 0 0"},
			commands.Told, "b"},
		{"one is away", map[string]string{"a": "away 0 0", "b": "1 0 1", "c": "0 0 0"}, nil,
			commands.Told, "b"},
		{"one is away, nobody", map[string]string{"a": "away 0 0", "b": "0 0 0", "c": "0 0 0"}, nil,
			commands.InDoubt, "b"},
		{"one is away afterwards", nobody, map[string]string{"a": "away 0 0", "b": "0 0 0", "c": "0 0 0"},
			commands.InDoubt, "b"},
		{"lost", map[string]string{"a": "0 0 0", "b": "0 0 0", "c": "1 0 1 lost"}, nil,
			commands.InDoubt, "c"},
		{"at a master that is a replica by now", map[string]string{"a": "0 0 0", "b": "0 0 0",
			"c": "0 0 0", "replica": "1 0 1"}, nil, commands.Told, "b"},
		{"such a one is away", map[string]string{"a": "0 0 0", "b": "0 0 0", "c": "0 0 0",
			"replica": "away 0 0"}, nil, commands.InDoubt, "b"},
		{"from there to a master meanwhile", map[string]string{"a": "0 0 0", "b": "0 0 0", "c": "0 0 0",
			"replica": "1 0 1"}, nobody, commands.Told, "b"},
	}
	for _, tt := range tests {
		a := &audience{masters: tt.masters, later: tt.later}
		of := Announcer{Nodes: a, Upstream: a, Topology: a.Topology}
		heard, err := of.Announce(t.Context(), "c", "m")
		if at := strings.Join(a.published, ","); heard != tt.want || at != tt.at {
			t.Errorf("%s: %d at %q, %v, want %d at %q", tt.name, heard, at, err, tt.want, tt.at)
		}
		if unsure := heard == commands.Unsent || heard == commands.InDoubt; unsure != (err != nil) {
			t.Errorf("%s: %d, %v", tt.name, heard, err)
		}
	}
	a := &audience{masters: nobody}
	of := Announcer{Nodes: a, Upstream: a, Topology: a.Topology}
	of.Follow(&cluster.Topology{Masters: []*cluster.Node{{Addr: "missing now"}}})
	of.Follow(a.Topology())
	if heard, err := of.Announce(t.Context(), "c", "m"); heard != commands.InDoubt || err != errLeft {
		t.Errorf("a node is missing: %d, %v", heard, err)
	}
}
