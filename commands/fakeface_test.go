package commands

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

// Select implements Databases: there are 16.
func (f *fakeSession) Select(n int) {
	if n > 15 {
		f.Reply(errorLine("ERR DB index is out of range"))
		return
	}
	f.client.DB = n
	f.Reply(replyOK)
}

func (f *fakeSession) SendHome(slot int, req []byte, resend bool, then func([]byte) []byte, lost func()) {
	f.Send(slot, req, resend, then, lost)
}
