//go:build limits

package attacks

import (
	"bytes"
	"context"
	"crypto/sha1"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockproxy/cluster/discovery"
	"lockproxy/integration/rig"
	"lockproxy/proxy"
	"lockproxy/proxy/door"
)

// How long the rounds of a loop are under attack is measured here; that they are bounded is counted in
// proxy/rounds_test.go.

// yardstick is the longest that a loop may be busy at a stretch, in CPU time of its thread: all other clients
// of the loop wait meanwhile. It is the time for ten million steps of a loop in Go, some 10 ms, so that the
// machine is measured by itself.
func yardstick() time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, x := threadTime(), uint64(1)
	for range 10_000_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	took := threadTime() - began
	if x == 0 { // never: but the compiler must not leave it out
		return 0
	}
	return took
}

// threadTime is how long the thread has been busy.
func threadTime() time.Duration {
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
	return time.Duration(now.Nano())
}

// roundClock measures the rounds of the one loop of a proxy.
type roundClock struct {
	pin   sync.Once
	last  time.Duration // of the loop: when its last round ended
	mu    sync.Mutex
	worst time.Duration
}

// round is called at the end of each round, on the loop, which has a thread for itself from the first one on.
func (c *roundClock) round() {
	c.pin.Do(func() {
		runtime.LockOSThread()
		c.last = threadTime()
	})
	took := threadTime() - c.last
	c.last += took
	c.mu.Lock()
	c.worst = max(c.worst, took)
	c.mu.Unlock()
}

// take is the longest round since it was called last.
func (c *roundClock) take() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	worst := c.worst
	c.worst = 0
	return worst
}

// startMeasured starts a proxy of one loop in this process, and measures its rounds.
func startMeasured(t *testing.T, o proxy.Options, upstream ...string) (addr string, clock *roundClock) {
	t.Helper()
	up, err := discovery.Find(t.Context(), discovery.Options{Addrs: upstream})
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	go up.Run(life) // ends with the test
	clock = new(roundClock)
	o.Upstream, o.Loops, o.WatchRounds, o.Config = up, 1, clock.round, fewSettings{}
	srv, err := proxy.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), rig.Patience)
		defer cancel()
		if err := srv.Drain(ctx); err != nil {
			t.Error(err)
		}
		end()
	})
	ln, err := door.Listen("127.0.0.1:0")
	if err == nil {
		err = srv.Serve(ln)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ln.Addr().String(), clock
}

// roundAttempts is how often an attack is tried while a round is too long: the clock of a thread also counts
// what the machine does on it for others.
const roundAttempts = 8

// bounded has attack run, and fails if a round of the loop is too long for it.
func bounded(t *testing.T, name string, clock *roundClock, attack func()) {
	t.Helper()
	var worst float64
	for i := range roundAttempts {
		runtime.GC() // what others left must not be cleared away by the loop
		most := yardstick()
		clock.take()
		attack()
		if took := float64(clock.take()) / float64(most); i == 0 || took < worst {
			worst = took
		}
		if worst <= 1 {
			break
		}
	}
	t.Logf("%-40s %.2f", name, worst)
	if worst > 1 {
		t.Errorf("%s: the loop did nothing else for %.2f times as long as it may", name, worst)
	}
}

// However long one command and its reply are, the loop comes round to others.
func TestLimitRounds(t *testing.T) {
	const n = 300_000
	nodes := rig.StartCluster(t, 3, 0, "--enable-debug-command", "yes",
		"--cluster-require-full-coverage", "no")
	addr, clock := startMeasured(t, proxy.Options{}, nodes.Nodes[0].Addr)
	for _, c := range heavyCommands {
		bounded(t, c.name, clock, func() { c.send(t, addr, n) })
	}
}

// What one client asks for or leaves behind in many small parts is dealt with in many rounds.
func TestLimitRoundsForManyThings(t *testing.T) {
	nodes := rig.StartCluster(t, 3, 0)
	addr, clock := startMeasured(t, proxy.Options{}, nodes.Nodes[0].Addr)
	c := rig.Connect(t, addr)
	for i := range 500 {
		c.Must(t, "SET", fmt.Sprintf("{slot}%d%s", i, strings.Repeat("k", 1_000)), "")
	}
	pattern := "*" + strings.Repeat("?k", 300) + "z*" // which nearly fits at every place
	bySlot := uint64(nodes.SlotOf(t, "{slot}"))<<3 | 4
	for _, kind := range [][]string{nil, {"TYPE", "string"}} {
		bounded(t, "SCAN slot by slot", clock, func() {
			c.Send(append([]string{"SCAN", fmt.Sprint(bySlot), "COUNT", "100000", "MATCH", pattern},
				kind...)...)
			if v, err := c.Receive(4 * rig.Patience); err != nil || v.IsError() {
				t.Fatalf("SCAN: %s %v", v, err)
			}
		})
	}
	const channels, times = 8_000, 6
	var listener *rig.Conn
	subscribe := func() {
		listener = rig.Connect(t, addr)
		for i := range times {
			words := []string{"SUBSCRIBE"}
			for j := range channels {
				words = append(words, fmt.Sprintf("channel%d", i*channels+j))
			}
			if err := listener.Send(words...); err != nil {
				t.Fatal(err)
			}
			for range channels {
				if _, err := listener.Receive(4 * rig.Patience); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	gone := func() {
		listener.Close()
		rig.Eventually(t, rig.Patience, "the channels to be given up", func() bool {
			return len(c.Must(t, "PUBSUB", "CHANNELS").Elems) == 0
		})
	}
	bounded(t, "the end of a subscriber", clock, func() { subscribe(); clock.take(); gone() })
	bounded(t, "RESET of a subscriber", clock, func() {
		subscribe()
		clock.take()
		listener.Want(t, "RESET",
			"RESET")
		gone()
	})
	bounded(t, "UNSUBSCRIBE from all", clock, func() {
		subscribe()
		clock.take()
		if err := listener.Send("UNSUBSCRIBE"); err != nil {
			t.Fatal(err)
		}
		for left := channels * times; left > 0; left-- {
			got, err := listener.Receive(4 * rig.Patience)
			if want := fmt.Sprint(left - 1); err != nil || len(got.Elems) != 3 || got.Elems[2].Text != want {
				t.Fatalf("UNSUBSCRIBE: %v, %v, want %s", got, err, want)
			}
		}
		listener.Want(t, "PONG", "PING")
		gone()
	})
}

// Thousands of short commands in one write take turns with those of others.
func TestLimitRoundsForPipelines(t *testing.T) {
	const n = 4_000
	nodes := rig.StartCluster(t, 3, 0)
	addr, clock := startMeasured(t, proxy.Options{}, nodes.Nodes[0].Addr)
	other := rig.Connect(t, addr)
	for _, line := range []string{
		"GET {slot}k", "COMMAND LIST", "COMMAND DOCS get", "CLIENT HELP", "CLIENT INFO", "CLIENT LIST",
		"LOCKCTL STATS",
		"LOCK {slot}held TOKEN t", "LOCK {slot}held NOWAIT", "UNLOCK {slot}held u", "INFO server",
	} {
		words := strings.Fields(line)
		command := rig.Encode(words...)
		bounded(t, line, clock, func() {
			c := rig.Connect(t, addr)
			go c.Write(bytes.Repeat(command, n)) // ends with c
			for range n {
				if v, err := c.Receive(4 * rig.Patience); err != nil {
					t.Fatalf("%s: %s %v", line, v, err)
				}
			}
			c.Close()
			other.Want(t, "PONG", "PING")
		})
	}
}

// So do those whose answers are put together from long ones of all nodes.
func TestLimitRoundsForMerges(t *testing.T) {
	const n = 500
	nodes := rig.StartCluster(t, 3, 0)
	addr, clock := startMeasured(t, proxy.Options{}, nodes.Nodes[0].Addr)
	for _, node := range nodes.Nodes {
		node.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "2000")
		for i := range 300 {
			node.Do(t, "ECHO", fmt.Sprint(i))
		}
		for _, verb := range strings.Fields("ECHO PING TIME DBSIZE ROLE LASTSAVE RANDOMKEY INFO COMMAND") {
			node.Do(t, strings.Fields(verb + " x")[:1+strings.Count("ECHO", verb)]...)
		}
	}
	other := rig.Connect(t, addr)
	for _, line := range []string{"SLOWLOG GET 128", "SLOWLOG GET", "INFO", "SLOWLOG GET -1",
		"SLOWLOG LEN"} {
		words := strings.Fields(line)
		times := n
		if words[len(words)-1] == "-1" || line == "SLOWLOG LEN" {
			times = 20
		}
		bounded(t, line, clock, func() {
			c := rig.Connect(t, addr)
			go c.Write(bytes.Repeat(rig.Encode(words...), times)) // ends with c
			for range times {
				if v, err := c.Receive(4 * rig.Patience); err != nil || v.IsError() {
					t.Fatalf("%s: %.200s %v", line, v, err)
				}
			}
			c.Close()
			other.Want(t, "PONG", "PING")
		})
	}
}

// Thousands of names in one command are subscribed to, and left, in many rounds.
func TestLimitRoundsForSubscribers(t *testing.T) {
	const names = 16_383
	nodes := rig.StartCluster(t, 3, 0)
	addr, clock := startMeasured(t, proxy.Options{}, nodes.Nodes[0].Addr)
	c := rig.Connect(t, addr)
	var listener *rig.Conn
	say := func(verb string, n int) (last rig.Reply) {
		words := []string{verb}
		for i := range n {
			words = append(words, fmt.Sprintf("{slot}%s%d", strings.Repeat("n", 200), i))
		}
		if err := listener.Send(words...); err != nil {
			t.Fatal(err)
		}
		for range n {
			var err error
			if last, err = listener.Receive(4 * rig.Patience); err != nil {
				t.Fatal(err)
			}
		}
		c.Want(t, "PONG", "PING") // in a later round
		return last
	}
	for _, verbs := range [][]string{
		{"SUBSCRIBE", "UNSUBSCRIBE"}, {"PSUBSCRIBE", "PUNSUBSCRIBE"}, {"SSUBSCRIBE", "SUNSUBSCRIBE"},
	} {
		join, leave := verbs[0], verbs[1]
		listener = rig.Connect(t, addr)
		check := func(name string, n int, verb string, want int) {
			t.Helper()
			bounded(t, name, clock, func() {
				if last := say(verb, n); last.Elems[2].Text != fmt.Sprint(want) {
					t.Fatalf("%s of %d: %v, want %d", verb, n, last, want)
				}
			})
		}
		bounded(t, join, clock, func() {
			say(leave, names)
			clock.take()
			say(join, names)
		})
		check(join+" again", names, join, names)
		bounded(t, leave+" from those", clock, func() {
			say(join, names)
			clock.take()
			say(leave, 3*names)
		})
		check(leave+" from nothing", 3*names, leave, 0)
	}
}

// One message for thousands of subscribers is handed to them in many rounds, and so are many messages.
func TestLimitRoundsForAudiences(t *testing.T) {
	const subscribers = 3_000
	nodes := rig.StartCluster(t, 3, 0)
	addr, clock := startMeasured(t, proxy.Options{}, nodes.Nodes[0].Addr)
	publisher, other := rig.Connect(t, addr), rig.Connect(t, addr)
	var read atomic.Int64
	for range subscribers {
		c := rig.Connect(t, addr)
		c.Must(t, "SUBSCRIBE", "channel")
		go func() { // ends with the connection
			buf := make([]byte, 64<<10)
			for {
				n, err := c.Read(buf)
				if read.Add(int64(n)); err != nil {
					return
				}
			}
		}()
	}
	for _, size := range []int{10, 1_000, 60_000, 70_000} {
		bounded(t, fmt.Sprint("messages of ", size, " bytes"), clock, func() {
			const times = 3
			message := strings.Repeat("m", size)
			read.Store(0)
			for range times {
				if err := publisher.Send("PUBLISH", "channel", message); err != nil {
					t.Fatal(err)
				}
			}
			want := int64(times * subscribers * len(rig.Encode("message", "channel", message)))
			var waited time.Duration
			rig.Eventually(t, 20*rig.Patience, "all to have the messages", func() bool {
				began := time.Now()
				other.Must(t, "GET", "key")
				waited = max(waited, time.Since(began))
				return read.Load() == want
			})
			for range times {
				if v, err := publisher.Receive(rig.Patience); err != nil ||
					v.Text != fmt.Sprint(subscribers) {
					t.Fatalf("PUBLISH: %s %v", v, err)
				}
			}
			t.Logf("GET of another client took up to %v", waited.Round(10*time.Microsecond))
		})
	}
}

// The reply of EXEC is taken apart and put together again beside the loop, and what the proxy runs for EXEC
// runs in many rounds.
func TestLimitRoundsForTransactions(t *testing.T) {
	const n = 300_000
	nodes := rig.StartCluster(t, 3, 0)
	addr, clock := startMeasured(t, proxy.Options{}, nodes.Nodes[0].Addr)
	c, long := rig.Connect(t, addr), strings.Repeat("x", 100*n)
	keys := strings.Fields(strings.Repeat(" {slot}key", n))
	rig.Connect(t, addr).Must(t, "SUBSCRIBE", "channel")
	c.Must(t, "SET", "{slot}long", long)
	transaction := func(name string, times int, commands ...[]string) {
		t.Helper()
		bounded(t, name, clock, func() {
			c.Must(t, "MULTI")
			for range times {
				for _, words := range commands {
					if err := c.Send(words...); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range times * len(commands) {
				if v, err := c.Receive(rig.Patience); err != nil || v.Text != "QUEUED" {
					t.Fatalf("%v %v", v, err)
				}
			}
			c.Send("EXEC")
			if v, err := c.Receive(4 * rig.Patience); len(v.Elems) != times*len(commands) {
				t.Fatalf("EXEC: %d elements of %d (%v)", len(v.Elems), times*len(commands), err)
			}
			c.Want(t, "PONG", "PING") // in a later round
		})
	}
	sha := func(i int) string { return fmt.Sprintf("%040d", i) }
	get, publish, id := []string{"GET", "{slot}long"}, []string{"PUBLISH", "channel", "1"}, []string{"CLIENT",
		"ID"}
	transaction("EXEC: long replies, and a count", 1, get, get, publish)
	transaction("EXEC: long replies, and a command of the proxy", 1, get, id, get)
	transaction("EXEC: many elements", 1, append([]string{"MGET"}, keys...), id)
	transaction("EXEC: many counts", 30_000, publish, id)
	transaction("EXEC: costly commands of the proxy", 300, []string{"COMMAND"})
	transaction("EXEC: a long command of the proxy", 1,
		append([]string{"SCRIPT", "EXISTS"}, slices.Repeat([]string{sha(0)}, 16_000)...))
	transaction("EXEC: SORT", 1,
		append([]string{"SORT", "{slot}"}, slices.Repeat([]string{"GET", "#"}, n/2)...),
		id)
	transaction("EXEC: SCRIPT LOAD", 1, []string{"SCRIPT", "LOAD", "return 1 --" + long})
	bounded(t, "EXEC: many scripts", clock, func() {
		c.Must(t, "MULTI")
		for i := range 20_000 {
			if err := c.Send("EVALSHA", sha(i), "0"); err != nil {
				t.Fatal(err)
			}
		}
		for range 20_000 {
			if _, err := c.Receive(rig.Patience); err != nil {
				t.Fatal(err)
			}
		}
		c.Must(t, "EXEC")
	})
}

// Nor does the loop take long to show commands to somebody in MONITOR.
func TestLimitRoundsForMonitor(t *testing.T) {
	const n = 300_000
	nodes := rig.StartCluster(t, 3, 0)
	addr, clock := startMeasured(t, proxy.Options{}, nodes.Nodes[0].Addr)
	monitor := rig.Connect(t, addr)
	monitor.Must(t, "MONITOR")
	go io.Copy(io.Discard, monitor) // ends with the connection
	c := rig.Connect(t, addr)
	bounded(t, "MONITOR: a long argument", clock, func() { c.Must(t, "ECHO", strings.Repeat("\x00", 100*n)) })
	many := strings.Fields("EXISTS" + strings.Repeat(" {slot}key", n))
	bounded(t, "MONITOR: many arguments", clock, func() { c.Must(t, many...) })
	bounded(t, "MONITOR: a transaction", clock, func() {
		c.Must(t, "MULTI")
		for range 1_000 {
			c.Must(t, append([]string{"DEL"}, slices.Repeat([]string{"{slot}" + strings.Repeat("k", 1_000)},
				120)...)...)
		}
		c.Must(t, "EXEC")
	})
}

// An argument of many bytes is not looked at on the loop by what the proxy answers itself.
func TestLimitRoundsForLongArguments(t *testing.T) {
	addr, clock := startMeasured(t, proxy.Options{ClusterMode: true}, rig.StartCluster(t, 3, 0).Nodes[0].Addr)
	c, long := rig.Connect(t, addr), strings.Repeat("x", 60_000_000)
	for _, text := range []string{
		"CLUSTER KEYSLOT", "CLIENT LIST TYPE", "CLIENT SETNAME", "CONFIG GET", "CLIENT KILL ADDR",
		"SCRIPT EXISTS",
		"SORT", "SORT_RO", "SSUBSCRIBE", "SPUBLISH LONG 1", "EVALSHA LONG 0", "BLPOP LONG 1", "BLPOP key",
		"COMMAND INFO", "INFO", "LOCKCTL", "LOCKCTL LIST MATCH", "LOCK job META",
		"HELLO 3 SETNAME", "SCAN 0 MATCH",
	} {
		bounded(t, text, clock, func() {
			words := strings.Fields(text)
			if at := slices.Index(words, "LONG"); at >= 0 {
				words[at] = long
			} else {
				words = append(words, long)
			}
			c.Call(t, words...)
			c.Want(t, "PONG", "PING") // in a later round
		})
	}
}

// A user of the upstream may send long commands too, about which the upstream is asked first.
func TestLimitRoundsForUsers(t *testing.T) {
	const n = 300_000
	nodes := rig.StartCluster(t, 3, 0)
	for _, node := range nodes.Nodes {
		node.Do(t, "ACL", "SETUSER", "may", "on", ">pw", "~*", "&*", "+@all")
		node.Do(t, "ACL", "SETUSER", "few", "on", ">pw", "~few*", "&*", "+@all")
	}
	addr, clock := startMeasured(t, proxy.Options{UsersOnly: true}, nodes.Nodes[0].Addr)
	may, few := rig.Connect(t, addr), rig.Connect(t, addr)
	may.Want(t, "OK", "AUTH", "may", "pw")
	few.Want(t, "OK", "AUTH", "few", "pw")
	key := func(i int) string { return fmt.Sprintf("few%s%d", strings.Repeat("k", 90), i) }
	words := []string{"MGET"}
	for i := range n {
		words = append(words, key(i))
	}
	may.Must(t, "SET", key(n-1), "last")
	for _, c := range []*rig.Conn{may, few} {
		bounded(t, "MGET of a user", clock, func() {
			got := c.Must(t, words...)
			if len(got.Elems) != n || got.Elems[n-1].Text != "last" {
				t.Fatalf("MGET: %d values: %.100s", len(got.Elems), got.Text)
			}
		})
	}
	words = append(words, "other")
	bounded(t, "MGET of a user, denied", clock, func() {
		if got := few.Call(t, words...); !strings.HasPrefix(got.Text, "NOPERM") {
			t.Fatalf("MGET: %.100s", got)
		}
	})
	long := strings.Repeat("x", 100*n)
	bounded(t, "ECHO of a user", clock, func() {
		if got := few.Call(t, "ECHO", long); got.Text != long {
			t.Fatalf("ECHO: %d bytes: %.100s", len(got.Text), got.Text)
		}
	})
	few.Want(t, "PONG", "PING")
}

// A script that another node is to run is sent there however long its keys are, and scripts that a node has
// lost are loaded in many rounds.
func TestLimitRoundsForScripts(t *testing.T) {
	const keys, long = 300_000, 60_000_000
	nodes := rig.StartCluster(t, 3, 0)
	addr, clock := startMeasured(t, proxy.Options{}, nodes.Nodes[0].Addr)
	c := rig.Connect(t, addr)
	migrating := func(key string) {
		from, to, slot := nodes.MasterOf(t, key), nodes.Nodes[0], fmt.Sprint(nodes.SlotOf(t, key))
		if to == from {
			to = nodes.Nodes[1]
		}
		to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.Do(t, "CLUSTER", "MYID").Text)
		from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do(t, "CLUSTER", "MYID").Text)
	}
	key := strings.Repeat("k", long)
	migrating(key)
	migrating("{slot}")
	bounded(t, "EVAL of a long key, ASK", clock, func() {
		c.Want(t, "(integer) 1", "EVAL", "return 1", "1", key)
		c.Want(t, "PONG", "PING") // in a later round
	})
	bounded(t, "EVAL of many keys, ASK", clock, func() {
		words := append([]string{"EVAL", "return 1", fmt.Sprint(keys)},
			slices.Repeat([]string{"{slot}k"}, keys)...)
		if v := c.Call(t, words...); v.Int() != 1 {
			t.Fatalf("EVAL: %.100s", v)
		}
		c.Want(t, "PONG", "PING")
	})
	here := "here" // on another master than the scripts are run at first
	for nodes.MasterOf(t, here) == nodes.MasterOf(t, "there") {
		here += "."
	}
	var scripts, shas []string
	for i := range 48 {
		text := fmt.Sprintf("return %d --%s", i, strings.Repeat("x", 1_000_000))
		scripts, shas = append(scripts, text), append(shas, fmt.Sprintf("%x", sha1.Sum([]byte(text))))
	}
	lose := func() {
		for _, text := range scripts {
			c.Must(t, "EVAL", text, "1", here) // so that the proxy knows it
		}
		nodes.MasterOf(t, "there").Do(t, "SCRIPT", "FLUSH")
		clock.take()
	}
	bounded(t, "EXEC of scripts that the node has lost", clock, func() {
		lose()
		c.Must(t, "MULTI")
		for _, sha := range shas {
			c.Must(t, "EVALSHA", sha, "1", "there")
		}
		if v := c.Must(t, "EXEC"); len(v.Elems) != len(scripts) || v.Elems[7].Int() != 7 {
			t.Fatalf("EXEC: %s", v)
		}
	})
	pipelined := func(name string, of func(i int) int) {
		bounded(t, name, clock, func() {
			lose()
			const many, n = 20_000, 500
			var all []byte
			for range many { // so that many commands of this client may be on their way
				all = append(all, rig.Encode("GET", "there")...)
			}
			for i := range n {
				all = append(all, rig.Encode("EVALSHA", shas[of(i)], "1", "there")...)
			}
			go c.Write(all) // ends with c
			for range many {
				if _, err := c.Receive(4 * rig.Patience); err != nil {
					t.Fatal(err)
				}
			}
			for i := range n {
				if v, err := c.Receive(4 * rig.Patience); err != nil ||
					v.Int() != int64(of(i)) || v.IsError() {
					t.Fatalf("EVALSHA of script %d: %s %v", of(i), v, err)
				}
			}
		})
	}
	pipelined("EVALSHA of a script that the node has lost", func(int) int { return 3 })
	pipelined("EVALSHA of many of them", func(i int) int { return i % len(scripts) })
}

// fewSettings are settings that nobody can change.
type fewSettings struct{}

func (fewSettings) Get(glob string) [][2]string {
	if glob == "maxclients" {
		return [][2]string{{glob, "10000"}}
	}
	return nil
}
func (fewSettings) Has(string) bool          { return false }
func (fewSettings) Check([][2]string) error  { return nil }
func (fewSettings) SetAll([][2]string) error { return nil }
