package proxy

import (
	"strings"
	"testing"
	"testing/synctest"
)

// MONITOR shows of a transaction what EXEC runs, and nothing of an earlier one.
func TestMonitorAndAnEarlierTransaction(t *testing.T) {
	inBubble(t, 1, Options{}, func(_ int, command string) string {
		switch command {
		case "MULTI", "DISCARD":
			return "+OK\r\n"
		case "EXEC":
			return "*1\r\n+OK\r\n"
		}
		return "+QUEUED\r\n"
	}, func(r *rig) {
		r.likeRedis7()
		a, m := r.connect(), r.connect()
		m.send("MONITOR")
		m.expect("+OK\r\n")
		a.send("MULTI", "SET early 1")
		a.expect("+OK\r\n+QUEUED\r\n")
		m.Close()
		synctest.Wait()
		a.send("DISCARD", "MULTI", "SET late 1")
		a.expect("+OK\r\n+OK\r\n+QUEUED\r\n")
		n := r.connect()
		n.send("MONITOR")
		n.expect("+OK\r\n")
		a.send("EXEC")
		a.expect("*1\r\n+OK\r\n")
		synctest.Wait()
		buf := make([]byte, 4096)
		k, _ := n.Read(buf)
		if strings.Contains(string(buf[:k]), "early") {
			t.Errorf("shown: %q", buf[:k])
		}
		n.Close()
	})
}
