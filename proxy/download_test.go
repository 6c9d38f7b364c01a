package proxy

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster/pipe/owned"
)

// bulkOf is a string of n bytes as a reply.
func bulkOf(n int) string { return fmt.Sprintf("$%d\r\n%s\r\n", n, strings.Repeat("v", n)) }

// inDownloadBubble has nodes that reply to GET a3 with three MiB.
func inDownloadBubble(t *testing.T, o Options, test func(u *uploads)) {
	inUploadBubble(t, o, func(u *uploads) {
		reply := func(_ int, command string) string {
			var mib int
			if _, err := fmt.Sscanf(command, "GET a%d", &mib); err != nil {
				return "+OK\r\n"
			}
			return bulkOf(mib<<20 + 10)
		}
		u.reply = reply
		u.answer = reply
		test(u)
	})
}

// sawShared expects what came over shared connections since the last call.
func (u *uploads) sawShared(want string) {
	u.Helper()
	synctest.Wait()
	u.rig.mu.Lock()
	defer u.rig.mu.Unlock()
	if got := strings.Join(u.seen, ", "); got != want {
		u.Errorf("over shared connections came %q, want %q", got, want)
	}
	u.seen = nil
}

// A long reply comes over a connection of the client's own, from the second at the latest, and so do the
// reads behind it. The proxy does not keep what the client does not read, and nobody else waits for it.
func TestLongRepliesApart(t *testing.T) {
	for name, tt := range map[string]struct {
		mib         int
		shared, own string
	}{
		"long": {2, "2: GET a2", "2 GET a2"},
		// the first one is dropped
		"very long": {6, "2: GET a6", "2 GET a6, 2 GET a6"},
	} {
		t.Run(name, func(t *testing.T) {
			inDownloadBubble(t, Options{}, func(u *uploads) {
				want := bulkOf(tt.mib<<20 + 10)
				c := u.connect()
				c.tell(want, fmt.Sprint("GET a", tt.mib))
				u.sawShared(tt.shared)
				c.send(fmt.Sprint("GET a", tt.mib))
				c.r.ReadByte()
				u.sawShared("")
				u.saw(tt.own)
				if n := u.used(); n > 300<<10 {
					t.Errorf("%d bytes are kept", n)
				}
				u.connect().tell("+OK\r\n", "GET b")
				time.Sleep(time.Hour) // the silence of the node is the client's
				c.expect(want[1:])
				c.tell("+OK\r\n+OK\r\n", "GET b", "SET b 1")
				u.sawShared("1: GET b, 1: SET b 1")
				c.Close()
			})
		})
	}
}

// Reads go the usual way again when there was no long reply for a while, and the connections are closed.
func TestShortRepliesBehindALongOne(t *testing.T) {
	inDownloadBubble(t, Options{}, func(u *uploads) {
		c := u.connect()
		c.tell(bulkOf(2<<20+10), "GET a2")
		u.sawShared("2: GET a2")
		for range expectLarge {
			c.tell("+OK\r\n", "GET b")
		}
		u.sawShared("")
		c.tell("+OK\r\n", "GET b")
		u.sawShared("1: GET b")
		time.Sleep(3 * largeIdle)
		synctest.Wait()
		if own := u.server.Stats().Own; own != (owned.Stats{}) {
			t.Errorf("connections are left: %+v", own)
		}
	})
}

// A reply is not asked for again if a later command of the client may have run, nor if there is no place for
// one more connection: then it is kept.
func TestLongRepliesThatAreKept(t *testing.T) {
	inDownloadBubble(t, Options{MaxOwn: 1}, func(u *uploads) {
		c := u.connect()
		c.tell(bulkOf(6<<20+10)+"+OK\r\n", "GET a6", "SET a6 1")
		u.sawShared("2: GET a6, 2: SET a6 1")
		u.saw("")
		u.connect().send("BLPOP a 0") // takes the only place
		synctest.Wait()
		c.tell(bulkOf(6<<20+10), "GET a6")
		u.sawShared("2: GET a6")
	})
}

// A client that goes, or is killed, inside of a reply leaves nothing.
func TestClientGoesInsideALongReply(t *testing.T) {
	for _, kill := range []bool{false, true} {
		inDownloadBubble(t, Options{}, func(u *uploads) {
			c := u.connect()
			c.tell(bulkOf(2<<20+10), "GET a2")
			c.send("GET a6")
			c.r.ReadByte()
			if kill {
				u.connect().tell(":1\r\n", "CLIENT KILL ID 1")
			} else {
				c.Close()
			}
			time.Sleep(time.Second)
			u.saw("2 GET a6, 2 end")
			if own := u.server.Stats().Own; own != (owned.Stats{}) {
				t.Errorf("connections are left: %+v", own)
			}
		})
	}
}

// A client with connections of its own for all it does is treated alike.
func TestLongReplyOfATracker(t *testing.T) {
	inDownloadBubble(t, Options{}, func(u *uploads) {
		c := u.connect()
		c.send("HELLO 3", "CLIENT TRACKING ON")
		time.Sleep(time.Second)
		io.CopyN(io.Discard, c.r, int64(c.r.Buffered()))
		c.send("GET a6")
		c.r.ReadByte()
		if n := u.used(); n > 300<<10 {
			t.Errorf("%d bytes are kept", n)
		}
	})
}

// A client may write a whole pipeline before it reads.
func TestLongRepliesInAPipeline(t *testing.T) {
	inDownloadBubble(t, Options{}, func(u *uploads) {
		c := u.connect()
		c.tell(bulkOf(2<<20+10), "GET a2")
		long := bulkOf(6<<20 + 10)
		c.SetWriteDeadline(time.Now().Add(time.Minute))
		c.send("GET a6", "GET a6", "SET b "+largeValue, "GET a6", "SET a6 "+largeValue, "GET b")
		c.expect(long + long + "+OK\r\n" + long + "+OK\r\n+OK\r\n")
	})
}
