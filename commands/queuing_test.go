package commands

import (
	"strings"
	"testing"
)

// What is queued at the node must not change the state of a connection that somebody else may get.
func TestQueuing(t *testing.T) {
	for name, table := range map[string]*Table{"redis 7.0": redis7(t, sampleVerbs()...), "miniredis": miniRedis(t, sampleVerbs()...)} {
		for line, want := range map[string]Queuing{
			"GET k": QueueForward, "MGET a b": QueueForward, "NOSUCH": QueueNever, "TIME": QueueForward, "PUBLISH c m": QueueForward,
			"PING": QueueForward, "ECHO x": QueueForward, "SELECT 1": QueueForward, "EVAL x 0": QueueForward, "EVALSHA x 0": QueueForward, "UNWATCH": QueueForward,
			"XREAD STREAMS k 0": QueueForward, "XREADGROUP GROUP g c STREAMS k 0": QueueForward,
			"MULTI": QueueNot, "EXEC": QueueNot, "DISCARD": QueueNot, "WATCH k": QueueNot, "RESET": QueueNot, "QUIT": QueueNot, "POST": QueueNot, "HOST:": QueueNot,
			"SCAN 0": QueueAlone, "RANDOMKEY": QueueAlone, "DBSIZE": QueueEverywhere, "KEYS *": QueueEverywhere, "FLUSHALL": QueueEverywhere,
			"FLUSHDB": QueueEverywhere, "FUNCTION LOAD x": QueueEverywhere, "SLOWLOG RESET": QueueEverywhere,
			"CLIENT SETNAME x": QueueHere, "CLIENT ID": QueueHere, "HELLO": QueueHere, "AUTH x": QueueHere, "COMMAND": QueueHere, "COMMAND COUNT": QueueHere,
			"CONFIG GET x": QueueHere, "INFO": QueueHere, "SCRIPT LOAD x": QueueHere, "SCRIPT FLUSH": QueueHere, "READONLY": QueueHere, "ASKING": QueueHere,
			"SCRIPT EXISTS x": QueueHere, "SLOWLOG LEN": QueueSpread, "LASTSAVE": QueueSpread,
			"LOCK k": QueueNever, "LOCKCTL INFO k": QueueNever, "SUBSCRIBE c": QueueNever, "UNSUBSCRIBE": QueueNever, "MONITOR": QueueNever,
			"CLIENT REPLY OFF": QueueNever, "SYNC": QueueNever, "SHUTDOWN": QueueNever,
		} {
			if cmd, _ := table.Resolve(split(line)); cmd.Queue != want {
				t.Errorf("%s: %s (%s): %d, want %d", name, line, cmd.Name, cmd.Queue, want)
			}
		}
	}
	// They do not block there, whatever becomes of them elsewhere.
	for _, line := range []string{"BLPOP k 0", "BRPOPLPUSH a b 0", "BZPOPMIN k 0", "BLMPOP 0 1 k LEFT", "WAIT 0 0"} {
		if cmd, _ := redis7(t).Resolve(split(line)); cmd.Queue != QueueForward {
			t.Errorf("%s: %d", line, cmd.Queue)
		}
	}
}

// TestWhatRunsWithExecCanRun proves that what the proxy does itself when EXEC has succeeded is something that it can do.
func TestWhatRunsWithExecCanRun(t *testing.T) {
	for name, table := range map[string]*Table{"redis 7.0": redis7(t, sampleVerbs()...), "miniredis": miniRedis(t, sampleVerbs()...)} {
		for _, c := range table.Commands() {
			switch c.Queue {
			case QueueHere, QueueSpread, QueueEverywhere:
				if c.Route != AllNodes && c.Run == nil {
					t.Errorf("%s: %s is queued (%d), and nothing runs it", name, c.Name, c.Queue)
				}
			}
		}
	}
}

func TestQueueRefusal(t *testing.T) {
	table := redis7(t, sampleVerbs()...)
	for line, want := range map[string]string{
		"LOCK k":    "-ERR LOCK is not available through lockproxy inside a transaction: send it before MULTI or after EXEC\r\n",
		"SHUTDOWN":  "-ERR Command not allowed inside a transaction\r\n",
		"SAVE":      "-ERR Command not allowed inside a transaction\r\n",
		"REPLICAOF": "-ERR REPLICAOF is not available through lockproxy: it changes who is a master; do that at the servers (refused-commands)\r\n",
		"SCAN 0":    "-ERR SCAN is not available through lockproxy inside a transaction in front of several masters: a transaction runs on one of them\r\n",
	} {
		if cmd, _ := table.Resolve(split(line)); string(cmd.QueueRefusal()) != want {
			t.Errorf("%s: %q", line, cmd.QueueRefusal())
		}
	}
	for _, c := range table.Commands() {
		if reply := string(c.QueueRefusal()); !strings.HasPrefix(reply, "-") || !strings.HasSuffix(reply, "\r\n") {
			t.Errorf("%s: %q", c.Name, reply)
		}
	}
}

func TestMultiField(t *testing.T) {
	for tx, want := range map[Transaction]int{{}: -1, {Open: true}: 0, {Open: true, Queued: 3}: 3} {
		if got := tx.Multi(); got != want {
			t.Errorf("%+v: %d", tx, got)
		}
	}
	f := newFake(t)
	f.client.Transaction = Transaction{Open: true, Queued: 2, Bytes: 40}
	if got := f.do("CLIENT INFO"); !strings.Contains(got, " flags=x ") || !strings.Contains(got, " multi=2 ") || !strings.Contains(got, " multi-mem=40 ") {
		t.Errorf("CLIENT INFO: %s", got)
	}
}
