package faults

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// The scripts of these tests.
const (
	incrScript   = "return(redis.call('INCR',KEYS[1]))"
	appendScript = "for _, k in ipairs(KEYS) do redis.call('APPEND', k, ARGV[1]) end return 1"
)

func shaOf(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// pipeline sends commands in one piece, and returns their replies, each in readable form.
func pipeline(t *testing.T, c *rig.Conn, commands ...string) []string {
	t.Helper()
	var b []byte
	for _, command := range commands {
		b = append(b, rig.Encode(strings.Fields(command)...)...)
	}
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	replies := make([]string, len(commands))
	for i := range commands {
		v, err := c.Receive(rig.Patience)
		if err != nil {
			t.Fatalf("%s: %v", commands[i], err)
		}
		replies[i] = v.String()
	}
	return replies
}

// A script that a node has lost behind the proxy's back is not run behind what its client has sent behind it.
// If there is nothing like that, or the node has lost the connection too, nobody notices. R33
func TestLostScriptKeepsItsPlace(t *testing.T) {
	t.Parallel()
	const lost = "NOSCRIPT No matching script. Please use EVAL."
	for _, proto := range []string{"2", "3"} {
		t.Run("RESP"+proto, func(t *testing.T) {
			redis := rig.StartRedis(t)
			c := rig.Connect(t, rig.StartProxy(t, "--upstream", redis.Addr).Addr)
			c.Must(t, "HELLO", proto)
			sha := c.Must(t, "SCRIPT", "LOAD", incrScript).Text
			call := "EVALSHA " + sha + " 1 cnt"
			between := []string{"SET cnt 10", call, "SET cnt 100", "GET cnt"}
			const healed = `OK | (integer) 11 | OK | "100"`
			want := func(what, want string, commands ...string) {
				t.Helper()
				if got := strings.Join(pipeline(t, c, commands...), " | "); !strings.Contains(got, want) {
					t.Errorf("%s: %s, want %s", what, got, want)
				}
			}
			want("all is well", healed, between...)

			redis.Do(t, "SCRIPT", "FLUSH")
			want("a write behind it", lost, between...)
			c.Want(t, `"100"`, "GET", "cnt")
			want("from then on", healed, between...)

			redis.Do(t, "SCRIPT", "FLUSH")
			want("nothing behind it", "OK | (integer) 11", "SET cnt 10", call)
			redis.Do(t, "SCRIPT", "FLUSH")
			want("reads behind it", `OK | (integer) 11 | "11" | (integer) 2`,
				"SET cnt 10", call, "GET cnt", "STRLEN cnt")
			redis.Do(t, "SCRIPT", "FLUSH")
			want("calls behind it", `OK | (integer) 11 | (integer) 12 | "12"`,
				"SET cnt 10", call, call, "GET cnt")
			c.Want(t, "OK", "SCRIPT", "FLUSH")
			if v := c.Call(t, "EVALSHA", sha, "1", "cnt"); !v.IsError("NOSCRIPT") {
				t.Errorf("flushed by the client: %s", v)
			}

			redis.Do(t, "SET", "cnt", "0")
			want("a script that nobody knows yet", lost+` | (integer) 1 | "1"`,
				call, "EVAL "+incrScript+" 1 cnt", "GET cnt")
			c.Must(t, "SCRIPT", "LOAD", incrScript)
			redis.Restart(t)
			c.Want(t, "OK", "SET", "cnt", "0") // which waits for the node
			want("a node that has restarted", healed, between...)
		})
	}
}

// What one client sends takes effect key by key in its order, while scripts are lost, connections break and
// slots move. R33
func TestOrderOfOneClient(t *testing.T) {
	t.Parallel()
	for _, upstream := range []string{"one Redis", "three masters"} {
		for proto := 2; proto <= 3; proto++ {
			t.Run(fmt.Sprintf("%s, RESP%d", upstream, proto), func(t *testing.T) {
				nodes, move := []*rig.Server(nil), func(*rand.Rand) {}
				if upstream == "one Redis" {
					nodes = append(nodes, rig.StartRedis(t))
				} else {
					cluster := rig.StartCluster(t, 3, 0)
					nodes = cluster.Nodes
					// Who has it is not asked, for a node that took no part may be behind.
					from := cluster.MasterOf(t, "{a}1")
					move = func(dice *rand.Rand) {
						if to := nodes[dice.IntN(3)]; from != to {
							cluster.Migrate(t, cluster.SlotOf(t, "{a}1"), from, to, time.Millisecond)
							from = to
						}
					}
				}
				orderUnderTrouble(t, rig.StartProxy(t, "--upstream", nodes[0].Addr), nodes, move, proto)
			})
		}
	}
}

func orderUnderTrouble(
	t *testing.T, p *rig.Proxy, nodes []*rig.Server, move func(*rand.Rand), proto int,
) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	c := rig.Connect(t, p.Addr)
	c.Must(t, "HELLO", strconv.Itoa(proto))
	c.Must(t, "SCRIPT", "LOAD", appendScript)
	stop := make(chan bool)
	var trouble sync.WaitGroup
	trouble.Go(func() {
		dice := rand.New(rand.NewPCG(seed, 1))
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(dice.IntN(3000)) * time.Microsecond):
			}
			node := nodes[dice.IntN(len(nodes))]
			switch dice.IntN(8) {
			case 0:
				node.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			case 1:
				move(dice)
			default:
				node.Do(t, "SCRIPT", "FLUSH")
			}
		}
	})
	keys := []string{"{a}1", "{a}2", "{a}3", "b", "c"}
	type sent struct{ verb, key, reply string }
	var all []sent
	for range 150 {
		var commands []string
		first := len(all)
		for range 1 + dice.IntN(24) {
			n, key := len(all), keys[dice.IntN(len(keys))]
			verb := []string{"APPEND", "EVALSHA", "EVALSHA", "GET"}[dice.IntN(4)]
			switch verb {
			case "APPEND":
				commands = append(commands, fmt.Sprintf("APPEND %s %d.", key, n))
			case "EVALSHA":
				commands = append(commands, fmt.Sprintf("EVALSHA %s 1 %s %d.", shaOf(appendScript), key, n))
			default:
				commands = append(commands, "GET "+key)
			}
			all = append(all, sent{verb: verb, key: key})
		}
		for i, reply := range pipeline(t, c, commands...) {
			all[first+i].reply = reply
		}
	}
	close(stop)
	trouble.Wait()

	ran := make(map[int]bool)
	has := make(map[string][]int)
	for _, key := range keys {
		last := -1
		for _, text := range strings.Split(strings.TrimSuffix(c.Must(t, "GET", key).Text, "."), ".") {
			n, _ := strconv.Atoi(text)
			if n <= last {
				t.Errorf("%s: %d has run behind %d", key, n, last)
			}
			last, ran[n] = n, true
			has[key] = append(has[key], n)
		}
	}
	refused := 0
	for n, cmd := range all {
		isError := strings.HasPrefix(cmd.reply, "(error)")
		if isError {
			refused++
		}
		unknown := strings.Contains(cmd.reply, "may or may not have run")
		switch {
		case unknown, isError && cmd.verb == "GET":
		case cmd.verb != "GET":
			if ran[n] == isError {
				t.Errorf("%d %s %s: %s, but that it has run is %v", n, cmd.verb, cmd.key, cmd.reply, ran[n])
			}
		default:
			want := ""
			for _, before := range has[cmd.key] {
				if before < n {
					want += strconv.Itoa(before) + "."
				}
			}
			if cmd.reply != strconv.Quote(want) && (want != "" || cmd.reply != "(nil)") {
				t.Errorf("%d GET %s: %s, want %s", n, cmd.key, cmd.reply, want)
			}
		}
	}
	t.Logf("%d commands, %d of them refused or of unknown outcome", len(all), refused)
}
