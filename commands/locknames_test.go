package commands_test

import (
	"strings"
	"testing"
	"time"

	"lockproxy/commands"
	"lockproxy/commands/lock"
	"lockproxy/commands/routes"
	"lockproxy/redlock/locks"
)

// The name of a lock may be long, and no longer.
func TestLockNamesAreBounded(t *testing.T) {
	name := strings.Repeat("n", 65536)
	withLocks(t, locks.Options{MaxLease: time.Minute},
		func(t *testing.T, session func() *client) {
			s := session()
			if got := s.Args("LOCK", name, "TOKEN", "t"); !strings.HasPrefix(got, "*4\r\n") {
				t.Errorf("LOCK of a name of %d bytes: %.80q", len(name), got)
			}
			if got := s.Args("UNLOCK", name, "t"); got != ":1\r\n" {
				t.Errorf("UNLOCK of it: %.80q", got)
			}
			s.Sent = nil
			name += "n"
			for _, words := range [][]string{
				{"LOCK", name, "TOKEN", "t"}, {"WLOCK", name}, {"RLOCK", name}, {"UNLOCK", name, "t"},
				{"RENEW", name, "t"},
				{"LOCKCTL", "INFO", name}, {"LOCKCTL", "CHECK", name, "t"}, {"LOCKCTL", "BREAK", name},
			} {
				want := "-ERR the name of a lock has 65536 bytes at most, this one has 65537\r\n"
				if got := s.Args(words...); got != want || len(s.Sent) > 0 {
					t.Errorf("%s: %.80q, and %d requests to Redis", words[:1], got, len(s.Sent))
				}
			}
			if got := s.Args("LOCKCTL", "CHECK", "job", strings.Repeat("t", 1025)); got != "$-1\r\n" &&
				got != "_\r\n" {
				t.Errorf("CHECK of a token that nobody has: %.80q", got)
			}
		})
}

// A verb that refused-commands names is refused without its key, too.
func TestRefusedVerbWithoutKey(t *testing.T) {
	verbs := lock.Verbs(lock.Lockers{})
	for _, line := range []string{"LOCKCTL INFO", "LOCKCTL BREAK", "LOCK"} {
		refused := strings.ReplaceAll(strings.ToLower(line), " ", "|")
		table, err := routes.NewTable(testdata(t, "command-7.0.15.resp"), verbs, refused)
		if err != nil {
			t.Fatal(err)
		}
		if cmd, _ := table.Resolve(wordsOf(line)); cmd.Route != commands.Refused {
			t.Errorf("%s is not refused", line)
		}
	}
}
