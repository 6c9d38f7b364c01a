package commands

import "fmt"

// This file is what of fakeSession belongs to ScanFan.

func (f *fakeSession) MasterAddr(i int) string { return fmt.Sprint(i, ":1") }
func (f *fakeSession) Layout() string          { return fmt.Sprint(len(f.masters)) }
func (f *fakeSession) Noted(string) string     { return "" }
func (f *fakeSession) Note(string, string)     {}

func (f *fakeSession) SendAll(addr string, reqs [][]byte, then Merge) {
	var i int
	if _, err := fmt.Sscanf(addr, "%d:1", &i); err != nil {
		f.t.Fatalf("there is no %s", addr)
	}
	var replies [][]byte
	for _, req := range reqs {
		replies = append(replies, f.ask(i, req))
	}
	proto := f.client.Proto
	*f.call = Call{}
	if answer := then(proto, replies); answer != nil {
		f.Reply(answer)
	}
}
