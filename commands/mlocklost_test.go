package commands_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/commands"
	"lockproxy/redlock"
	"lockproxy/redlock/locks"
)

// tasks is a client that knows what its last task is told of the delivery of its answer.
type tasks struct{ *client }

func (c tasks) Task(task commands.Task, lost redlock.Delivery) {
	c.session.Task(task, lost)
	c.Undelivered = lost
}

// run has a command run as Args does, with c as its Actions.
func (c tasks) run(line string) string {
	c.t.Helper()
	var args [][]byte
	for _, word := range strings.Fields(line) {
		args = append(args, []byte(word))
	}
	c.Answer, c.answers = nil, 0
	cmd, _ := c.Table.Resolve(args)
	c.call = &commands.Call{Command: cmd, Args: args, Client: &c.User, Table: c.Table,
		Server: c.Server, Actions: c}
	cmd.Run(c.call)
	return readable(string(c.Answer))
}

// The grant of an MLOCK whose answer surely did not reach the client does not linger, and its end is no loss,
// as for LOCK. R18 R19
func TestMlockThatIsNotReadDoesNotLinger(t *testing.T) {
	for _, verb := range []string{"LOCK job TOKEN t PX 3000 KEEPALIVE LINGER 60000",
		"MLOCK 1 job TOKEN t PX 3000 KEEPALIVE LINGER 60000",
		"MLOCK 2 job job2 TOKEN t PX 3000 KEEPALIVE LINGER 60000"} {
		for _, after := range []time.Duration{0, 1500 * time.Millisecond} { // 1.5 s: it was renewed once
			t.Run(verb+after.String(), func(t *testing.T) {
				withLocks(t, locks.Options{}, func(t *testing.T, session func() *client) {
					a, b := tasks{session()}, session()
					if got := a.run(verb); !strings.HasPrefix(got, "*[t ") {
						t.Fatal(got)
					}
					time.Sleep(after)
					synctest.Wait()
					closes(a.client) // as proxy/ending.go does: first Break, then Lost
					a.Lose()
					time.Sleep(10 * time.Second)
					if got := readable(b.Do("LOCK job TOKEN u")); !strings.HasPrefix(got, "*[u ") {
						t.Errorf("%s: lost after %v: it lingers: %s", verb, after, got)
					}
					if got := readable(b.Do("LOCKCTL STATS")); !strings.Contains(got, " gone 0 ") {
						t.Errorf("%s: lost after %v: it counts as a loss", verb, after)
					}
					if got := readable(b.Do("UNLOCK job t")); got != "$nil" {
						t.Errorf("%s: lost after %v: %s", verb, after, got)
					}
				})
			})
		}
	}
}
