package commands_test

import (
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// fakeFrontend implements Frontend.
type fakeFrontend struct {
	Cluster  bool
	Proxies  []string
	TLS      bool
	Unserved int
	reads    commands.ReplicaReads
	watched  int
}

func (f *fakeFrontend) ClusterMode() bool                   { return f.Cluster }
func (f *fakeFrontend) Announced() []string                 { return f.Proxies }
func (f *fakeFrontend) Home() string                        { return "0.0.0.0:6380" }
func (f *fakeFrontend) Secure() bool                        { return f.TLS }
func (f *fakeFrontend) ReplicaReads() commands.ReplicaReads { return f.reads }
func (f *fakeFrontend) WatchReplicas()                      { f.watched++ }
func (f *fakeFrontend) Served() int                         { return 16384 - f.Unserved }

// fakeConnection implements Connection.
type fakeConnection struct{ f *session }

func (f *session) Connection() commands.Connection { return fakeConnection{f} }

// Aside implements commands.Connection.
func (f fakeConnection) Aside(task func()) { go task() }

func (fakeConnection) UpstreamUser() string { return "" }

// Select implements Connection: there are 16 databases.
func (c fakeConnection) Select(n int) {
	if n > 15 {
		c.f.Reply(resp.ErrorLine("ERR DB index is out of range"))
		return
	}
	c.f.User.DB = n
	c.f.Reply(resp.OK)
}

func (c fakeConnection) Monitor(reply []byte) {
	c.f.User.Monitoring = true
	c.f.Reply(reply)
}

func (c fakeConnection) WatchLocks(match []byte) {
	c.f.User.Watching = true
	c.f.Reply(resp.OK)
}

func (c fakeConnection) SetReplies(r commands.Replies) { c.f.Peers.set = append(c.f.Peers.set, r) }
func (c fakeConnection) Reset()                        { c.f.Peers.reset = true }
