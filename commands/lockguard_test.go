package commands_test

import (
	"strconv"
	"strings"
	"testing"

	"lockproxy/redlock/locks"
)

// What is known of a guarded command is known of GUARD: its keys, its secrets, the rights that it needs, and
// why it cannot run.
func TestGuardedCommands(t *testing.T) {
	withLocks(t, locks.Options{}, func(t *testing.T, session func() *client) {
		table := session().Table
		for _, test := range []struct{ call, hidden, keys, rights, refused string }{
			{"GUARD job t SET a 1", "2", "job a", "GET lock:{job}; HGETALL lock:{job}; SET a 1", ""},
			{"GUARD job TOKEN t MSET a 1 b 2", "3", "job a b",
				"GET lock:{job}; HGETALL lock:{job}; MSET a * b *", ""},
			{"GUARD job FENCE 7 OBJECT ENCODING a", "", "job a",
				"GET lock:{job}; HGETALL lock:{job}; OBJECT ENCODING a", ""},
			{"GUARD job t AUTH u pw", "2 4 5", "job", "GET lock:{job}; HGETALL lock:{job}; AUTH u *",
				"AUTH is not available through lockproxy inside GUARD: Redis lets no script run it"},
			{"GUARD job t MIGRATE h 1 a 0 9 AUTH pw", "2 10", "job a",
				"GET lock:{job}; HGETALL lock:{job}; MIGRATE h 1 a 0 9 AUTH pw",
				"MIGRATE is not available through lockproxy"},
			{"GUARD job t UNLOCK job u", "2 5", "job job",
				"GET lock:{job}; HGETALL lock:{job}; SET lock:{job} * GET",
				"UNLOCK is not available through lockproxy inside GUARD: it is a lock verb itself"},
			{"GUARD job t PUBLISH c m", "2", "job", "GET lock:{job}; HGETALL lock:{job}; PUBLISH c m", ""},
			{"GUARD job t XREAD STREAMS s 0", "2", "job s",
				"GET lock:{job}; HGETALL lock:{job}; XREAD STREAMS s 0", ""},
			{"GUARD job t XREAD BLOCK 0 STREAMS s 0", "2", "job s",
				"GET lock:{job}; HGETALL lock:{job}; XREAD BLOCK 0 STREAMS s 0",
				"XREAD is not available through lockproxy inside GUARD: it may block"},
			{"GUARD job t FCALL f 0", "2", "job", "GET lock:{job}; HGETALL lock:{job}; FCALL f 0",
				"FCALL is not available through lockproxy inside GUARD: Redis lets no script call a func"},
			{"GUARD job t EVAL s 1 a", "2", "job a", "GET lock:{job}; HGETALL lock:{job}; EVAL s 1 a", ""},
			{"GUARD job t EVAL_RO s 1 a", "2", "job a",
				"GET lock:{job}; HGETALL lock:{job}; EVAL_RO s 1 a",
				"EVAL_RO is not available through lockproxy inside GUARD: nothing would keep the script"},
			{"GUARD job t FLUSHALL", "2", "job", "GET lock:{job}; HGETALL lock:{job}; FLUSHALL",
				"FLUSHALL is not available through lockproxy inside GUARD: it is not about keys"},
			{"GUARD job t EXEC", "2", "job", "GET lock:{job}; HGETALL lock:{job}; EXEC",
				"EXEC is not available through lockproxy inside GUARD: Redis lets no script run it"},
			{"GUARD job t SELECT 1", "2", "job", "GET lock:{job}; HGETALL lock:{job}; SELECT 1",
				"SELECT is not available through lockproxy inside GUARD: it is not about keys"},
		} {
			var args [][]byte
			for _, word := range strings.Fields(test.call) {
				args = append(args, []byte(word))
			}
			c, _ := table.Resolve(args)
			var hidden, keys, rights []string
			for i, secret := range c.Secrets(args) {
				if secret {
					hidden = append(hidden, strconv.Itoa(i))
				}
			}
			for _, i := range c.KeyIndexes(args) {
				keys = append(keys, string(args[i]))
			}
			needs, _ := c.Rights(args)
			for _, right := range needs {
				var words []string
				for _, word := range right {
					words = append(words, string(word))
				}
				rights = append(rights, strings.Join(words, " "))
			}
			if got := strings.Join(hidden, " "); got != test.hidden {
				t.Errorf("%s: hides %s, want %s", test.call, got, test.hidden)
			}
			if got := strings.Join(keys, " "); got != test.keys {
				t.Errorf("%s: keys %s, want %s", test.call, got, test.keys)
			}
			if got := strings.Join(rights, "; "); got != test.rights {
				t.Errorf("%s: rights %s, want %s", test.call, got, test.rights)
			}
			got := session().Do(test.call)
			if want := "-ERR " + test.refused; test.refused != "" && !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q, want %q", test.call, got, want)
			}
			if test.refused == "" && !strings.HasPrefix(got, "-NOTHELD ") {
				t.Errorf("%s: %q, want NOTHELD", test.call, got)
			}
		}
	})
}
