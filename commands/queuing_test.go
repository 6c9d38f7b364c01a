package commands_test

import (
	"strings"
	"testing"

	"lockproxy/commands"
)

// What is queued at the node must not change the state of a connection that somebody else may get.
func TestQueuing(t *testing.T) {
	for name, table := range map[string]*commands.Table{"redis 7.0": redis7(t,
		sampleVerbs()...),
		"miniredis": miniRedis(t, sampleVerbs()...)} {
		for line, want := range map[string]commands.Queuing{
			"GET k": commands.QueueForward, "MGET a b": commands.QueueForward, "NOSUCH": commands.QueueNever,
			"TIME": commands.QueueForward, "PUBLISH c m": commands.QueueForward,
			"PING": commands.QueueForward, "ECHO x": commands.QueueForward, "SELECT 1": commands.QueueForward,
			"EVAL x 0": commands.QueueForward, "EVALSHA x 0": commands.QueueForward,
			"UNWATCH":                          commands.QueueForward,
			"XREAD STREAMS k 0":                commands.QueueForward,
			"XREADGROUP GROUP g c STREAMS k 0": commands.QueueForward,
			"MULTI":                            commands.QueueNot, "EXEC": commands.QueueNot,
			"DISCARD": commands.QueueNot,
			"WATCH k": commands.QueueNot, "RESET": commands.QueueNot, "QUIT": commands.QueueNot,
			"POST": commands.QueueNot, "HOST:": commands.QueueNot,
			"SCAN 0": commands.QueueAlone, "RANDOMKEY": commands.QueueAlone,
			"DBSIZE": commands.QueueEverywhere, "KEYS *": commands.QueueEverywhere,
			"FLUSHALL": commands.QueueEverywhere,
			"FLUSHDB":  commands.QueueEverywhere, "FUNCTION LOAD x": commands.QueueEverywhere,
			"SLOWLOG RESET":    commands.QueueEverywhere,
			"CLIENT SETNAME x": commands.QueueHere, "CLIENT ID": commands.QueueHere,
			"HELLO": commands.QueueHere, "AUTH x": commands.QueueHere, "COMMAND": commands.QueueHere,
			"COMMAND COUNT": commands.QueueHere,
			"CONFIG GET x":  commands.QueueHere, "INFO": commands.QueueHere,
			"SCRIPT LOAD x": commands.QueueHere, "SCRIPT FLUSH": commands.QueueHere,
			"READONLY": commands.QueueHere, "ASKING": commands.QueueHere,
			"SCRIPT EXISTS x": commands.QueueHere, "SLOWLOG LEN": commands.QueueSpread,
			"LASTSAVE": commands.QueueSpread,
			"LOCK k":   commands.QueueNever, "LOCKCTL INFO k": commands.QueueNever,
			"SUBSCRIBE c": commands.QueueNever, "UNSUBSCRIBE": commands.QueueNever,
			"MONITOR":          commands.QueueNever,
			"CLIENT REPLY OFF": commands.QueueNever, "SYNC": commands.QueueNever,
			"SHUTDOWN": commands.QueueNever,
		} {
			if cmd, _ := table.Resolve(wordsOf(line)); cmd.Queue != want {
				t.Errorf("%s: %s (%s): %d, want %d", name, line, cmd.Name, cmd.Queue, want)
			}
		}
	}
	// They do not block there, whatever becomes of them elsewhere.
	for _, line := range []string{"BLPOP k 0", "BRPOPLPUSH a b 0", "BZPOPMIN k 0", "BLMPOP 0 1 k LEFT",
		"WAIT 0 0"} {
		cmd, _ := redis7(t).Resolve(wordsOf(line))
		if cmd.Queue != commands.QueueForward {
			t.Errorf("%s: %d", line, cmd.Queue)
		}
	}
}

// TestWhatRunsWithExecCanRun proves that what the proxy does itself when EXEC has succeeded is something that
// it can do.
func TestWhatRunsWithExecCanRun(t *testing.T) {
	for name, table := range map[string]*commands.Table{"redis 7.0": redis7(t,
		sampleVerbs()...),
		"miniredis": miniRedis(t, sampleVerbs()...)} {
		for _, c := range table.Commands() {
			switch c.Queue {
			case commands.QueueHere, commands.QueueSpread, commands.QueueEverywhere:
				if c.Route != commands.AllNodes && c.Run == nil {
					t.Errorf("%s: %s is queued (%d), and nothing runs it", name, c.Name, c.Queue)
				}
			}
		}
	}
}

func TestQueueRefusal(t *testing.T) {
	table := redis7(t, sampleVerbs()...)
	for line, want := range map[string]string{
		"LOCK k": "-ERR LOCK is not available through lockproxy inside a transaction: send it before " +
			"MULTI or after EXEC\r\n",
		"SHUTDOWN": "-ERR Command not allowed inside a transaction\r\n",
		"SAVE":     "-ERR Command not allowed inside a transaction\r\n",
		"REPLICAOF": "-ERR REPLICAOF is not available through lockproxy: it changes who is a master; do " +
			"that at the servers (refused-commands)\r\n",
		"SCAN 0": "-ERR SCAN is not available through lockproxy inside a transaction in front of " +
			"several masters: a transaction runs on one of them\r\n",
	} {
		if cmd, _ := table.Resolve(wordsOf(line)); string(cmd.QueueRefusal()) != want {
			t.Errorf("%s: %q", line, cmd.QueueRefusal())
		}
	}
	for _, c := range table.Commands() {
		if reply := string(c.QueueRefusal()); !strings.HasPrefix(reply, "-") ||
			!strings.HasSuffix(reply, "\r\n") {
			t.Errorf("%s: %q", c.Name, reply)
		}
	}
}

func TestMultiField(t *testing.T) {
	for tx, want := range map[commands.Transaction]int{{}: -1, {Open: true}: 0, {Open: true, Queued: 3}: 3} {
		if got := tx.Multi(); got != want {
			t.Errorf("%+v: %d", tx, got)
		}
	}
	f := newSession(t)
	f.User.Transaction = commands.Transaction{Open: true, Queued: 2, Bytes: 40}
	if got := f.Do("CLIENT INFO"); !strings.Contains(got, " flags=x ") ||
		!strings.Contains(got, " multi=2 ") || !strings.Contains(got, " multi-mem=40 ") {
		t.Errorf("CLIENT INFO: %s", got)
	}
}
