package commands

import "lockproxy/internal/resp"

// fakeFace implements Face.
type fakeFace struct {
	clusterMode bool
	announced   []string
	secure      bool
	unserved    int
	reads       ReplicaReads
	watched     int
}

func (f *fakeFace) ClusterMode() bool          { return f.clusterMode }
func (f *fakeFace) Announced() []string        { return f.announced }
func (f *fakeFace) Home() string               { return "0.0.0.0:6380" }
func (f *fakeFace) Secure() bool               { return f.secure }
func (f *fakeFace) ReplicaReads() ReplicaReads { return f.reads }
func (f *fakeFace) WatchReplicas()             { f.watched++ }
func (f *fakeFace) Served() int                { return 16384 - f.unserved }

// fakeConnection implements Connection.
type fakeConnection struct{ f *fakeSession }

func (f *fakeSession) Connection() Connection { return fakeConnection{f} }

// Select implements Connection: there are 16 databases.
func (c fakeConnection) Select(n int) {
	if n > 15 {
		c.f.Reply(resp.ErrorLine("ERR DB index is out of range"))
		return
	}
	c.f.client.DB = n
	c.f.Reply(resp.OK)
}

func (c fakeConnection) Monitor(reply []byte) {
	c.f.client.Monitoring = true
	c.f.Reply(reply)
}

func (c fakeConnection) SetReplies(r Replies) { c.f.clients.set = append(c.f.clients.set, r) }
func (c fakeConnection) Reset()               { c.f.clients.reset = true }
