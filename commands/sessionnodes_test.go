package commands_test

import (
	"strconv"
	"strings"

	"lockproxy/commands"
	"lockproxy/commands/cut"
	"lockproxy/internal/slot"
)

// This file is what of Session and Server belongs to Nodes and OwnStats.

// fakeFan is the part of Session for commands that concern several nodes.
type fakeFan struct {
	busy  bool
	told  []string // commands that went to the replicas
	apart int      // calls of AskAll with Own
}

// fakeNodes implements Nodes and Notes.
type fakeNodes struct{ f *session }

func (f *session) Nodes() commands.Nodes { return fakeNodes{f} }

func (n fakeNodes) Masters() int { return len(n.f.Masters) }

// Owner has each master serve as many slots.
func (n fakeNodes) Owner(s int) int { return s * len(n.f.Masters) / slot.Count }

func (n fakeNodes) Name(i int) string { return "id" + strconv.Itoa(i) }
func (n fakeNodes) Addr(i int) string { return strconv.Itoa(i) + ":1" }

// Single says that there is one master.
func (n fakeNodes) Single() bool { return len(n.f.Masters) == 1 }

func (n fakeNodes) Busy() bool              { return n.f.busy }
func (n fakeNodes) TellReplicas(req []byte) { n.f.told = append(n.f.told, commandLine(n.f.t, req)) }

func (n fakeNodes) Notes() commands.Notes { return n }
func (n fakeNodes) Layout() string        { return strconv.Itoa(len(n.f.Masters)) }
func (n fakeNodes) Of(string) string      { return "" }
func (n fakeNodes) Set(string, string)    {}

func (f *session) AskParts(parts []cut.Part, _ commands.Asking, merge commands.Merge) {
	var replies [][]byte
	for _, part := range parts {
		replies = append(replies, f.Request(part.Slot%len(f.Masters), part.Request))
	}
	f.Reply(merge(f.User.Proto, replies))
}

func (f *session) AskInTurn(addr string, reqs [][]byte, then commands.Merge) {
	i, err := strconv.Atoi(strings.TrimSuffix(addr, ":1"))
	if err != nil {
		f.t.Fatalf("there is no %s", addr)
	}
	var replies [][]byte
	for _, req := range reqs {
		replies = append(replies, f.Request(i, req))
	}
	proto := f.User.Proto
	*f.call = commands.Call{}
	if answer := then(proto, replies); answer != nil {
		f.Reply(answer)
	}
}

// fakeOwnStats implements OwnStats.
type fakeOwnStats struct {
	commands []commands.OwnCommand
	errors   map[string]uint64
	resets   int
}

func (s *fakeServer) OwnStats() commands.OwnStats { return &s.own }

func (b *fakeOwnStats) Commands() []commands.OwnCommand { return b.commands }
func (b *fakeOwnStats) Errors() map[string]uint64       { return b.errors }
func (b *fakeOwnStats) Reset()                          { b.resets++ }

func (s *fakeServer) Has(name string) bool {
	_, ok := s.Settings[name]
	return ok
}

func (s *fakeServer) Check(pairs [][2]string) error {
	for _, p := range pairs {
		if strings.HasPrefix(p[1], "bad") {
			return unknownSetting(p[0])
		}
	}
	return nil
}
