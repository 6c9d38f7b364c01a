package attacks

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// Nobody is dialled, and given the password of the upstream, because a client had a node name an address.
func TestNoStrangerIsDialled(t *testing.T) {
	t.Parallel()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	var dialled atomic.Int64
	go func() { // ends when the door is closed
		for {
			c, err := door.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			c.Close()
		}
	}()
	for _, cluster := range []*rig.Cluster{rig.SharedCluster(), rig.StartCluster(t, 1, 0)} {
		p := rig.StartProxy(t, "--upstream", cluster.Addrs(), "--refused-commands", "",
			"--retry-budget", "500ms")
		c := rig.Connect(t, p.Addr)
		for _, word := range []string{"MOVED", "ASK"} {
			said := fmt.Sprintf("%s 7629 %s", word, door.Addr()) // the slot of k
			for _, args := range [][]string{
				{"DEBUG", "ERROR", said}, {"EVAL", "return redis.error_reply(ARGV[1])", "1", "k", said},
				{"MULTI"}, {"DEBUG", "ERROR", said}, {"EVAL", "return redis.error_reply(ARGV[1])", "1", "k",
					said}, {"EXEC"},
				{"BLPOP", "k", "0.01"}, {"GET", "k"},
			} {
				v := c.Call(t, args...)
				if v.IsError("MOVED") || v.IsError("ASK") {
					t.Errorf("%q was answered %s", args, v)
				}
			}
		}
	}
	if n := dialled.Load(); n > 0 {
		t.Errorf("the address that a reply named was dialled %d times", n)
	}
}

// A script whose error is worded like one of Redis's runs twice at most, and its client gets that error.
func TestScriptsThatSpeakLikeRedis(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs(), "--retry-budget", "2m")
	c := rig.Connect(t, p.Addr)
	other := rig.SharedCluster().Addrs()
	for i, said := range []string{
		"CLUSTERDOWN Hash slot not served", "CLUSTERDOWN The cluster is down",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"MOVED 7629 " + strings.Split(other, ",")[0],
		"MOVED 7629 " + strings.Split(other, ",")[1], "MOVED 7629 " +
			strings.Split(other, ",")[2],
		"ASK 7629 " + strings.Split(other, ",")[0],
	} {
		const source = "redis.call('INCR', KEYS[2]) return redis.error_reply(ARGV[1])"
		runs := fmt.Sprintf("{k}:runs:%d:%d", i, time.Now().UnixNano())
		v := c.Call(t, "EVAL", source, "2", "k", runs, said)
		if got := strings.TrimPrefix(v.Text, "ERR "); !v.IsError() || got != said {
			t.Errorf("%s: got %s", said, v)
		}
		if n := c.Must(t, "GET", runs).Text; n != "1" && n != "2" {
			t.Errorf("%s: it ran %s times", said, n)
		}
	}
}
