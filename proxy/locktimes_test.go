package proxy

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An MLOCK that need not wait takes its time, too: its task does more than to wait.
func TestDurationOfMlock(t *testing.T) {
	answer := func(_ int, command string) string {
		if strings.HasPrefix(command, "EVALSHA") {
			time.Sleep(100 * time.Millisecond)
			return "*2\r\n:7\r\n:8\r\n"
		}
		return "+OK\r\n"
	}
	inBubble(t, 1, Options{}, answer, func(r *rig) {
		c := r.connect()
		c.send("MLOCK 2 {job}1 {job}2 TOKEN t WAIT 5000")
		c.expect("*3\r\n$1\r\nt\r\n*2\r\n:7\r\n:8\r\n:29900\r\n")
		synctest.Wait()
		for _, one := range r.server.Stats().Commands {
			if one.Name == "mlock" && (one.Took < 100*time.Millisecond || one.Took > time.Second) {
				t.Errorf("MLOCK took %s", one.Took)
			}
		}
	})
}

// The durations of commands are without what a LOCK waits for its lock, which is counted by itself.
func TestDurationWithoutWaiting(t *testing.T) {
	answer := func(_ int, command string) string {
		if strings.HasPrefix(command, "EVALSHA") {
			return "$-1\r\n" // others hold it
		}
		return "+OK\r\n"
	}
	inBubble(t, 1, Options{LockOptions: LockOptions{LockPrefixes: []string{"job"}}}, answer, func(r *rig) {
		c := r.connect()
		c.send("LOCK job1 TRIES 3 EVERY 10000")
		c.expect("$-1\r\n")
		synctest.Wait()
		st := r.server.Stats()
		for _, one := range st.Commands {
			if one.Name == "lock" && (one.Took > time.Second || one.Buckets[len(one.Buckets)-1] > 0) {
				t.Errorf("LOCK took %s", one.Took)
			}
		}
		if w := st.LockTimes.Waits; len(w) != 1 || w[0].Prefix != "job" || w[0].Outcome != "timeout" ||
			w[0].Count != 1 || w[0].Sum < 10 {
			t.Errorf("waits: %+v", w)
		}
	})
}
