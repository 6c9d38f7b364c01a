package proxy

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/table"
)

// loads is an upstream that has a module's command from some time on.
type loads struct {
	Upstream
	asked  int
	module bool
	takes  time.Duration // to answer
}

func (u *loads) Command(ctx context.Context) ([]byte, error) {
	u.asked++
	select {
	case <-time.After(u.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	all, err := u.Upstream.Command(ctx)
	if err != nil || !u.module {
		return all, err
	}
	v, _, err := resp.Parse(all)
	row := redcon.AppendArray(nil, 6)
	row = redcon.AppendBulkString(row, "mod.get")
	row = redcon.AppendInt(row, 2)
	row = redcon.AppendArray(row, 1)
	row = redcon.AppendString(row, "readonly")
	row = redcon.AppendInt(redcon.AppendInt(redcon.AppendInt(row, 1), 1), 1)
	described, _, _ := resp.Parse(row)
	v.Elems = append(v.Elems, described)
	return resp.AppendValue(nil, v), err
}

// inLoadingBubble runs test before nodes whose commands are those of loads.
func inLoadingBubble(t *testing.T, test func(r *rig, u *loads)) {
	inBubble(t, 2, Options{}, echo, func(r *rig) {
		u := &loads{Upstream: r}
		r.server.shared.Table.Upstream = u
		time.Sleep(2 * table.AskPause) // the commands were told a while ago
		test(r, u)
	})
}

const unknownFoo = "-ERR unknown command 'XCLIENT', with args beginning with: 'REPLY' 'SKIP' \r\n"

// What the upstream does not tell of is sent to no node, however it comes, and answered in the words of
// Redis.
func TestUnknownCommandIsNotSent(t *testing.T) {
	inLoadingBubble(t, func(r *rig, u *loads) {
		c := r.connect()
		c.send("SET a 1", "XCLIENT REPLY SKIP", "GET a", "MULTI", "XCLIENT REPLY SKIP", "EXEC", "GET a")
		c.expect("+2 SET a 1\r\n" + unknownFoo + "+2 GET a\r\n" + "+OK\r\n" + unknownFoo + execAbortedReply +
			"+2 GET a\r\n")
		c.send("CLIENT REPLY SKIP", "XCLIENT REPLY SKIP", "GET a", "SUBSCRIBE")
		c.expect("+2 GET a\r\n-ERR wrong number of arguments for 'subscribe' command\r\n")
		if seen := r.commands(); strings.Contains(seen, "XCLIENT") {
			t.Errorf("the nodes got %s", seen)
		}
	})
}

// A command that a module has brought is served as soon as a client sends it.
func TestCommandOfANewModule(t *testing.T) {
	inLoadingBubble(t, func(r *rig, u *loads) {
		u.module, u.takes = true, 100*time.Millisecond
		a, b := r.connect(), r.connect()
		before := u.asked
		a.send("GET a", "MOD.GET a", "GET a")
		b.send("MOD.GET foo", "XCLIENT REPLY SKIP")
		a.expect("+2 GET a\r\n+2 MOD.GET a\r\n+2 GET a\r\n")
		b.expect("+2 MOD.GET foo\r\n" + unknownFoo)
		if u.asked != before+1 {
			t.Errorf("the upstream was asked %d times, want once", u.asked-before)
		}
	})
}

// The upstream is not asked more often than once a second, nobody waits for it for longer than a second, and
// its silence costs no command that is known.
func TestUnknownCommandsDoNotFlood(t *testing.T) {
	inLoadingBubble(t, func(r *rig, u *loads) {
		clients := []*testClient{r.connect(), r.connect(), r.connect()}
		before, begun := u.asked, time.Now()
		for range 300 {
			for _, c := range clients {
				c.send("XCLIENT REPLY SKIP")
				c.expect(unknownFoo)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if most := 1 + int(time.Since(begun)/table.AskPause); u.asked-before > most || u.asked == before {
			t.Errorf("asked %d times in %v", u.asked-before, time.Since(begun))
		}
		time.Sleep(2 * table.AskPause)
		u.takes = time.Hour
		begun = time.Now()
		clients[0].send("XCLIENT REPLY SKIP")
		synctest.Wait()
		clients[1].send("GET a")
		clients[1].expect("+2 GET a\r\n")
		if took := time.Since(begun); took > 0 {
			t.Errorf("GET took %v", took)
		}
		clients[0].expect(unknownFoo)
		if took := time.Since(begun); took > table.AskLimit {
			t.Errorf("an unknown command took %v", took)
		}
	})
}

// A client that goes, or that ends its side, while it waits for the commands, is let go.
func TestGoesBehindAnUnknownCommand(t *testing.T) {
	inLoadingBubble(t, func(r *rig, u *loads) {
		u.takes = time.Hour
		c := r.connect()
		c.send("XCLIENT REPLY SKIP")
		synctest.Wait()
		c.Close()
		time.Sleep(2 * table.AskLimit)
		if n := r.server.Clients(); n != 0 {
			t.Errorf("%d clients are left", n)
		}
	})
}

// Who has not authenticated has nobody asked for anything.
func TestUnknownCommandBeforeAuth(t *testing.T) {
	inLoadingBubble(t, func(r *rig, u *loads) {
		r.change(func(o *Options) { o.Password = "secret" })
		c := r.connect()
		before := u.asked
		c.send("XCLIENT REPLY SKIP")
		c.expect(string(client.NoAuth))
		if u.asked != before {
			t.Error("the upstream was asked")
		}
	})
}
