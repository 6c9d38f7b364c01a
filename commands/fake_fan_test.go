package commands

import (
	"strconv"
	"strings"

	"lockproxy/internal/slot"
)

// This file is what of fakeSession and fakeServer belongs to Fan and Ledger.

// fakeFan is the part of fakeSession for commands that concern several nodes.
type fakeFan struct {
	busy  bool
	told  []string // commands that went to the replicas
	apart int      // calls of Apart
}

// Owner has each master serve as many slots.
func (f *fakeSession) Owner(n int) int { return n * len(f.masters) / slot.Count }

func (f *fakeSession) MasterName(i int) string { return "id" + strconv.Itoa(i) }

// Single says that there is one master.
func (f *fakeSession) Single() bool { return len(f.masters) == 1 }

func (f *fakeSession) Busy() bool { return f.busy }

func (f *fakeSession) Gather(req []byte, resend bool, then Merge) {
	var replies [][]byte
	for i := range f.masters {
		replies = append(replies, f.ask(i, req))
	}
	proto := f.client.Proto
	*f.call = Call{}
	if answer := then(proto, replies); answer != nil {
		f.Reply(answer)
	}
}

func (f *fakeSession) Split(parts []Part, _ bool, merge Merge) {
	var replies [][]byte
	for _, part := range parts {
		replies = append(replies, f.ask(part.Slot%len(f.masters), part.Request))
	}
	f.Reply(merge(f.client.Proto, replies))
}

func (f *fakeSession) Apart(req []byte, merge Merge) {
	f.apart++
	f.Broadcast(req, false, merge)
}

func (f *fakeSession) SendTo(addr string, req []byte, resend bool, then func([]byte) []byte) {
	i, err := strconv.Atoi(strings.TrimSuffix(addr, ":1"))
	if err != nil {
		f.t.Fatalf("there is no %s", addr)
	}
	f.SendMaster(i, req, resend, then, nil)
}

func (f *fakeSession) Tell(req []byte) { f.told = append(f.told, commandLine(f.t, req)) }

// fakeBooks implements Books and SlowLog.
type fakeBooks struct {
	commands []OwnCommand
	errors   map[string]uint64
	resets   int
	slow     []SlowEntry
	whose    map[string][2]string // by address
	limits   []string
}

func (s *fakeServer) Books() Books     { return &s.books }
func (s *fakeServer) SlowLog() SlowLog { return (*fakeSlow)(&s.books) }

func (b *fakeBooks) Commands() []OwnCommand    { return b.commands }
func (b *fakeBooks) Errors() map[string]uint64 { return b.errors }
func (b *fakeBooks) Reset()                    { b.resets++ }

type fakeSlow fakeBooks

func (b *fakeSlow) Own() []SlowEntry          { return b.slow }
func (b *fakeSlow) Reset()                    { b.slow = nil }
func (b *fakeSlow) Limits(name, value string) { b.limits = append(b.limits, name+"="+value) }
func (b *fakeSlow) Whose() func(SlowEntry) (string, string, bool) {
	return func(e SlowEntry) (string, string, bool) {
		who, ok := b.whose[e.Addr]
		return who[0], who[1], ok
	}
}

func (s *fakeServer) Has(name string) bool {
	_, ok := s.settings[name]
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
