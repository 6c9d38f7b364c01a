package proxy

import (
	"crypto/sha1"
	"fmt"
	"strings"
	"testing"

	"lockproxy/cluster"
	"lockproxy/internal/slot"
)

// transacting answers as a node on which transactions get v for each command; others are first.
func transacting(first func(node int, command string) string) func(int, string) string {
	return trackingNode(func(node int, command string) string {
		if reply := first(node, command); reply != "" {
			return reply
		}
		switch command {
		case "MULTI", "ASKING":
			return "+OK\r\n"
		case "EXEC":
			return "*1\r\n$1\r\nv\r\n"
		}
		return "+QUEUED\r\n"
	})
}

// commandsAt are those of the commands that begin with node.
func (r *rig) commandsAt(node string) string {
	var at []string
	for command := range strings.SplitSeq(r.commands(), ", ") {
		if strings.HasPrefix(command, node) {
			at = append(at, command)
		}
	}
	return strings.Join(at, ", ")
}

// CLIENT CACHING holds for the transaction that begins behind it, at whichever node that is queued, and for
// no other.
func TestCachingTransaction(t *testing.T) {
	key := keyAt(1, 2, 0)
	for _, tt := range []struct{ options, caching, redirect, want, queued, told string }{
		{"OPTIN", "YES", "", "1: CLIENT CACHING YES, 1: MULTI, 1: GET <key>, 1: EXEC", "", ""},
		{"OPTOUT", "NO", "", "1: CLIENT CACHING NO, 1: MULTI, 1: GET <key>, 1: EXEC", "", ""},
		// Node 1 has lost slots.
		{"OPTIN", "YES", "-MOVED %d node:2\r\n", "2: CLIENT CACHING YES, 2: MULTI, 2: GET <key>, 2: EXEC",
			allInvalid, ""},
		{"OPTIN", "YES", "-ASK %d node:2\r\n", "2: ASKING, 2: MULTI, 2: GET <key>, 2: EXEC", allInvalid,
			allInvalid},
	} {
		inBubble(t, 2, Options{}, transacting(func(node int, command string) string {
			if tt.redirect != "" && node == 1 && command == "GET "+key {
				return fmt.Sprintf(tt.redirect, slot.Of([]byte(key)))
			}
			return ""
		}), func(r *rig) {
			c := r.newTracker(tt.options)
			c.tell("+OK\r\n+OK\r\n"+tt.queued+"+QUEUED\r\n*1\r\n$1\r\nv\r\n"+tt.told,
				"CLIENT CACHING "+tt.caching,
				"MULTI", "GET "+key, "EXEC")
			if got, want := r.commandsAt(tt.want[:3]), strings.ReplaceAll(tt.want, "<key>",
				key); !strings.Contains(got, want) {
				r.Errorf("%s: %s is not among %s", tt.redirect, want, got)
			}
			before := len(r.commands())
			c.tell("+OK\r\n+QUEUED\r\n*1\r\n$1\r\nv\r\n", "MULTI", "GET "+keyAt(2, 2, 1), "EXEC")
			if got := r.commands()[before:]; strings.Contains(got, "CACHING") {
				r.Errorf("CLIENT CACHING holds for the next transaction: %s", got)
			}
		})
	}
}

// What the proxy asks by itself while a transaction is queued is not queued in it.
func TestTrackedTransactionIsLeftAlone(t *testing.T) {
	key := keyAt(1, 2, 0)
	inBubble(t, 2, Options{}, transacting(func(_ int, command string) string {
		switch {
		case strings.HasPrefix(command, "COMMAND GETKEYS"):
			return "*1\r\n$1\r\n" + key + "\r\n"
		case strings.HasPrefix(command, "SCRIPT EXISTS"):
			return "*1\r\n:1\r\n"
		}
		return ""
	}), func(r *rig) {
		r.as = func(node int, _ cluster.Mode, own bool) (int, error) {
			if own {
				node += 10 // a connection of the client
			}
			return node, nil
		}
		source := "return1"
		sum := fmt.Sprintf("%x", sha1.Sum([]byte(source)))
		r.server.shared.Scripts.Add([]byte(source))
		c := r.newTracker("")
		c.tell("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*1\r\n$1\r\nv\r\n", "MULTI", "GET "+key, "SORT "+key,
			"EVALSHA "+sum+" 0", "EXEC")
		want := fmt.Sprintf("11: MULTI, 11: GET %[1]s, 11: SORT %[1]s, 11: EVALSHA %[2]s 0, 11: EXEC", key,
			sum)
		if all := r.commands(); !strings.Contains(r.commandsAt("11:"), want) ||
			!strings.Contains(all, "GETKEYS") ||
			!strings.Contains(all, ", 1: SCRIPT EXISTS") {
			r.Errorf("%s is not among %s", want, all)
		}
	})
}

// A client that has given WATCH waits over a second connection, which does not track: it is told to forget
// what it read.
func TestBlockingReadBesideWatch(t *testing.T) {
	inBubble(t, 1, Options{}, trackingNode(func(_ int, command string) string {
		if strings.HasPrefix(command, "XREAD") {
			return "$4\r\nread\r\n"
		}
		return "+OK\r\n"
	}), func(r *rig) {
		r.likeRedis7()
		c := r.newTracker("")
		c.tell("$4\r\nread\r\n", "XREAD BLOCK 1000 STREAMS s $")
		c.tell("+OK\r\n$4\r\nread\r\n>2\r\n$10\r\ninvalidate\r\n_\r\n+OK\r\n", "WATCH k",
			"XREAD BLOCK 1000 STREAMS s $", "UNWATCH")
		c.tell("$4\r\nread\r\n+OK\r\n", "XREAD BLOCK 1000 STREAMS s $", "GET k")
	})
}

// The connection of a WATCH that came before CLIENT TRACKING does not track: who reads over it is told to
// forget what it read.
func TestTrackingBetweenWatchAndMulti(t *testing.T) {
	inBubble(t, 1, Options{}, transacting(func(_ int, command string) string {
		if command == "WATCH k" {
			return "+OK\r\n"
		}
		return ""
	}), func(r *rig) {
		c := r.connect()
		c.hello3()
		c.tell("+OK\r\n+OK\r\n", "WATCH k", trackOn)
		c.tell("+OK\r\n+QUEUED\r\n*1\r\n$1\r\nv\r\n"+allInvalid, "MULTI", "GET k", "EXEC")
		// Its connection tracked, but others do now.
		c.tell(strings.Repeat("+OK\r\n", 3), "WATCH k", "CLIENT TRACKING OFF", trackOn)
		c.tell("+OK\r\n+QUEUED\r\n*1\r\n$1\r\nv\r\n"+allInvalid, "MULTI", "GET k", "EXEC")
	})
}

// CLIENT CACHING holds for each part of a command that is too long to be sent at once.
func TestCachingOfLongCommand(t *testing.T) {
	inBubble(t, 2, Options{}, trackingNode(func(_ int, command string) string {
		n := strings.Count(command, " ")
		return fmt.Sprintf("*%d\r\n%s", n, strings.Repeat("$1\r\nv\r\n", n))
	}), func(r *rig) {
		c := r.newTracker("OPTIN")
		c.tell("+OK\r\n*5000\r\n", "CLIENT CACHING YES", "MGET"+manyKeys(5000))
		c.expect(strings.Repeat("$1\r\nv\r\n", 5000))
		for _, node := range []string{"1: ", "2: "} {
			before := ""
			for command := range strings.SplitSeq(r.commandsAt(node), ", ") {
				if strings.HasPrefix(command, node+"MGET") && before != node+"CLIENT CACHING YES" {
					r.Fatalf("%.20q comes behind %.20q", command, before)
				}
				before = command
			}
		}
	})
}
