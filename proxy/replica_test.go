package proxy

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"lockproxy/cluster"
	"lockproxy/commands"
)

// inReplicated is inBubble before masters with a replica each: that of node i is node 10+i.
func inReplicated(t *testing.T, nodes int, o Options, answer func(node int, command string) string,
	test func(r *rig)) {
	inBubble(t, nodes, o, answer, func(r *rig) {
		next := *r.topology
		next.Readers = make(map[*cluster.Node][]*cluster.Node)
		for i, m := range next.Masters {
			replica := &cluster.Node{Addr: fmt.Sprintf("node:%d", 11+i), Follows: m.Addr}
			next.Replicas = append(next.Replicas, replica)
			next.Readers[m] = []*cluster.Node{replica}
		}
		w := r.server.workers[0]
		w.loop.Post(func() { r.topology = &next; w.pool.Update() })
		synctest.Wait()
		test(r)
	})
}

const disabled = "-ERR This instance has cluster support disabled\r\n"

// Whose reads go to replicas depends on the setting, the frontend, and on what the client has said.
func TestWhoReadsFromReplicas(t *testing.T) {
	const ok, master, replica = "+OK\r\n", "+3 GET foo\r\n", "+13 GET foo\r\n"
	for _, test := range []struct {
		reads       commands.ReplicaReads
		clusterMode bool
		// what is answered to GET, READONLY, GET, READWRITE, GET, RESET, GET
		answers string
	}{
		{commands.ReadsOnRequest, false,
			master + disabled + master + disabled + master + "+RESET\r\n" + master},
		{commands.ReadsOnRequest, true, master + ok + replica + ok + master + "+RESET\r\n" + master},
		{commands.ReadsAtMaster, false,
			master + disabled + master + disabled + master + "+RESET\r\n" + master},
		{commands.ReadsAtMaster, true, master + ok + master + ok + master + "+RESET\r\n" + master},
		{commands.ReadsPreferred, false, replica + ok + replica + ok + master + "+RESET\r\n" + replica},
		{commands.ReadsPreferred, true, replica + ok + replica + ok + master + "+RESET\r\n" + replica},
	} {
		t.Run(fmt.Sprint(test.reads, test.clusterMode), func(t *testing.T) {
			o := Options{ReplicaReads: test.reads, ClusterMode: test.clusterMode}
			inReplicated(t, 3, o, echo, func(r *rig) {
				c := r.connect()
				c.send("GET foo", "READONLY", "GET foo", "READWRITE", "GET foo", "RESET", "GET foo")
				c.expect(test.answers)
			})
		})
	}
	inReplicated(t, 3, Options{ReplicaReads: commands.ReadsAnywhere}, echo, func(r *rig) {
		for range 4 { // their ids rise by one
			c := r.connect()
			c.send("GET foo")
			c.expect("+")
		}
		synctest.Wait()
		if got := r.commands(); strings.Count(got, "13: GET foo") != 2 ||
			strings.Count(got, " 3: GET foo")+strings.Count("^"+got, "^3: GET foo") != 2 {
			r.Errorf("the nodes saw %s", got)
		}
	})
}

// Only what reads keys goes to replicas, and all replies come in order.
func TestWhatReplicasAreAsked(t *testing.T) {
	var slow chan struct{} // made in the bubble
	answer := func(node int, command string) string {
		switch {
		case command == "GET foo" && slow != nil:
			<-slow
		case strings.HasPrefix(command, "EVALSHA"):
			return ":1\r\n"
		case strings.HasPrefix(command, "MGET"):
			return fmt.Sprintf("*1\r\n:%d\r\n", node)
		case strings.HasPrefix(command, "DBSIZE"), strings.HasPrefix(command, "EXISTS"),
			strings.HasPrefix(command, "TOUCH"):
			return fmt.Sprintf(":%d\r\n", node)
		}
		return echo(node, command)
	}
	inReplicated(t, 3, Options{ReplicaReads: commands.ReadsPreferred}, answer, func(r *rig) {
		slow = make(chan struct{})
		c := r.connect()
		c.send("GET foo", "SET foo 1", "GET k", "INCR k", "MGET foo k bar", "EXISTS foo bar",
			"TOUCH foo", "DBSIZE",
			"XREAD STREAMS foo 0", "UNLOCK job t", "EVAL x 1 foo", "PING", "TTL foo")
		synctest.Wait()
		if got := r.commands(); !strings.Contains(got, "3: SET foo 1") || strings.Contains(got, "TTL") &&
			strings.Index(got, "TTL") < strings.Index(got, "13: GET foo") {
			r.Errorf("the nodes saw %s", got)
		}
		close(slow)
		c.expect("+13 GET foo\r\n+3 SET foo 1\r\n+12 GET k\r\n+2 INCR k\r\n*3\r\n:13\r\n:12\r\n:11\r\n" +
			":24\r\n:3\r\n:6\r\n" +
			"+13 XREAD STREAMS foo 0\r\n:1\r\n+3 EVAL x 1 foo\r\n+PONG\r\n+13 TTL foo\r\n")
		for seen := range strings.SplitSeq(r.commands(), ", ") {
			if strings.Contains(seen, "EVALSHA") && len(strings.Split(seen, ":")[0]) > 1 {
				r.Errorf("a lock at a replica: %s", seen)
			}
		}
	})
}

// A client that leaves while a replica owes it a reply leaves nothing behind, and those who stay are served.
func TestReaderLeaves(t *testing.T) {
	var slow chan struct{} // made in the bubble
	answer := func(node int, command string) string {
		if command == "GET slow" {
			<-slow
		}
		return echo(node, command)
	}
	inReplicated(t, 1, Options{ReplicaReads: commands.ReadsPreferred}, answer, func(r *rig) {
		slow = make(chan struct{})
		leaver, c := r.connect(), r.connect()
		leaver.send("GET slow", "GET more")
		synctest.Wait()
		leaver.Close()
		c.send("GET k")
		synctest.Wait()
		close(slow)
		c.expect("+11 GET k\r\n")
	})
}
