package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockproxy/internal/slot"
)

const benchmarkReport = "GET x: rps=0.0 (overall: -nan) avg_msec=-nan (overall: -nan)\r" +
	"GET x: rps=34928.6 (overall: 34790.5) avg_msec=0.928 (overall: 0.928)\r" +
	"GET x: rps=49155.4 (overall: 39661.5) avg_msec=0.649 (overall: 0.822)\r\n" +
	`====== GET x ======
  100000 requests completed in 2.52 seconds
  50 parallel clients

Latency by percentile distribution:
0.000% <= 0.072 milliseconds (cumulative count 1)

Summary:
  throughput summary: 39698.29 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.821     0.072     0.791     1.255     1.847     6.175
`

func TestParseReport(t *testing.T) {
	_, summed, _ := strings.Cut(benchmarkReport, "======")
	for _, tt := range []struct {
		name, text string
		rate       float64
	}{
		{"the last interim report counts", benchmarkReport, 39661.5},
		{"a short run has none", summed, 39698.29},
	} {
		s, err := parseReport(tt.text)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if s.rate != tt.rate || s.p50 != 791*time.Microsecond || s.p99 != 1847*time.Microsecond {
			t.Errorf("%s: %+v", tt.name, s)
		}
	}
	for _, text := range []string{"", "All clients disconnected... aborting.", "Summary:\n",
		strings.ReplaceAll(benchmarkReport, "6.175", "")} {
		if s, err := parseReport(text); err == nil {
			t.Errorf("%.20q: %+v and no error", text, s)
		}
	}
}

func TestParseCommandStats(t *testing.T) {
	got := parseCommandStats("# Commandstats\r\n" +
		"cmdstat_get:calls=21,usec=2,usec_per_call=1.00,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_cluster|slots:calls=3,usec=52,usec_per_call=26.00,rejected_calls=0,failed_calls=0\r\n")
	want := map[string]spending{"get": {21, 2}, "cluster|slots": {3, 52}}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCalledByScript(t *testing.T) {
	for line, want := range map[string]string{
		`1700000000.000001 [0 lua] "HGET" "key" "f"`:               "hget",
		`1700000000.000001 [0 127.0.0.1:40000] "GET" "key"`:        "",
		`1700000000.000001 [0 127.0.0.1:40000] "EVALSHA" "abc" ""`: "",
		"+OK": "",
	} {
		if got := calledByScript(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		all  []float64
		want float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 2, 9}, 3},
	} {
		if got := median(tt.all); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.all, got, tt.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("of nothing: %v", got)
	}
}

// Rounds are compared with themselves: a machine that is slower in one of them
// is slower for both.
func TestRatio(t *testing.T) {
	r := results{}
	for _, speed := range []float64{1, 10, 100} {
		r.add("GET", "ours", sample{rate: 80 * speed})
		r.add("GET", "theirs", sample{rate: 100 * speed})
	}
	if got := r.ratio("GET", "ours", "theirs", rate); got != 0.8 {
		t.Errorf("got %v, want 0.8", got)
	}
}

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		v                           verdict
		word, target, value, limits string
	}{
		{atMost(0.8, "%.2f", "", spreadOf(0.8, 0.7, 0.9)), "reached", "<= 0.8", "0.80", "0.70 to 0.90"},
		{atMost(0.8, "%.2f", "", spreadOf(0.81)), "not reached", "<= 0.8", "0.81", "0.81 to 0.81"},
		{atLeast(0.85, "%.2f", "", spreadOf(0.85)), "reached", ">= 0.85", "0.85", "0.85 to 0.85"},
		{atLeast(0.85, "%.2f", "", spreadOf(0.84)), "not reached", ">= 0.85", "0.84", "0.84 to 0.84"},
		{atMost(1, "%.0f", "", spreadOf(math.NaN(), math.Inf(1))), "not measured", "<= 1", "", ""},
	} {
		v := tt.v
		if v.Word() != tt.word || v.Target() != tt.target || v.Value() != tt.value ||
			v.Limits() != tt.limits {
			t.Errorf("%+v: %s %s %s %s, want %+v", v, v.Word(), v.Target(), v.Value(), v.Limits(), tt)
		}
	}
}

func TestTable(t *testing.T) {
	got := table{{"", "µs"}, {"GET", "1.5"}, {"a", "10"}}.String()
	want := "|     |  µs |\n|-----|----:|\n| GET | 1.5 |\n| a   |  10 |\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestReplySize(t *testing.T) {
	for _, reply := range []string{
		"+OK\r\n", "-ERR no\r\n", ":1\r\n", "$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "$4\r\na\r\nb\r\n", "*0\r\n",
		"*4\r\n$3\r\nabc\r\n:17\r\n:30000\r\n:1\r\n", "*2\r\n*1\r\n$1\r\na\r\n*2\r\n:1\r\n:2\r\n",
	} {
		for i := range len(reply) {
			if got := replySize([]byte(reply[:i])); got != 0 {
				t.Errorf("%q: %d, want 0: incomplete", reply[:i], got)
			}
		}
		if got := replySize([]byte(reply + "+more\r\n")); got != len(reply) {
			t.Errorf("%q: %d, want %d", reply, got, len(reply))
		}
	}
}

// A load sends what its sources make, batch by batch, and refuses errors.
func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		name, reply string
		fails       string
	}{
		{name: "good", reply: "+PONG\r\n$1\r\nx\r\n"},
		{name: "error", reply: "+PONG\r\n-ERR no\r\n", fails: `unexpected reply "-ERR no\r\n"`},
		{name: "null", reply: "$-1\r\n$1\r\nx\r\n", fails: `unexpected reply "$-1\r\n"`},
		{name: "too many", reply: "+PONG\r\n+1\r\n+2\r\n", fails: "after the last reply"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr, asked := answering(t, "PING\r\nGET\r\n", tt.reply)
			var l load
			defer l.close()
			l.pipeline = 2
			for range 3 {
				if err := l.dial(addr, func(dst []byte) []byte { return append(dst, "PING\r\nGET\r\n"...) },
					nil); err != nil {
					t.Fatal(err)
				}
			}
			s, err := l.run(context.Background(), 10)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("got error %v, want %s", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if s.rate <= 0 || s.p50 <= 0 || s.p99 < s.p50 {
				t.Errorf("%+v", s)
			}
			l.close()
			l.conns = nil
			n := 0
			for range 3 {
				n += <-asked
			}
			if n != 10 {
				t.Errorf("the server was asked %d times, want 10", n)
			}
		})
	}
}

// answering is a server that answers each batch with reply, in two pieces. Each
// connection tells at its end how many it answered.
func answering(t *testing.T, batch, reply string) (addr string, asked chan int) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	asked = make(chan int, 10)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				n, buf := 0, make([]byte, len(batch))
				for {
					if _, err := conn.Read(buf); err != nil {
						asked <- n
						return
					}
					n++
					conn.Write([]byte(reply[:3]))
					time.Sleep(time.Millisecond)
					conn.Write([]byte(reply[3:]))
				}
			}()
		}
	}()
	return ln.Addr().String(), asked
}

// Only one holds the lock of a contest, and hand-overs are counted once warm.
func TestContest(t *testing.T) {
	calls := 0
	var used burnt
	c := &contest{warm: 2, wanted: 2, passed: make(chan struct{}), count: func() (map[string]spending,
		error) {
		calls += 6
		return map[string]spending{"evalsha": {calls, 10 * calls}}, nil
	}, burnt: func() (burnt, error) {
		b := used
		used.client, used.proxy, used.redis = b.client+2*time.Second, b.proxy+4*time.Second,
			b.redis+6*time.Second
		return b, nil
	}}
	for i := range 4 {
		if c.over() {
			t.Fatalf("over after %d grants", i)
		}
		if _, err := c.granted(time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.granted(time.Now()); err == nil {
			t.Fatal("two hold it and nobody minds")
		}
		c.releasing()
	}
	s, err := c.sample()
	if err != nil || !c.over() {
		t.Fatalf("over %v, %v", c.over(), err)
	}
	if got := s.commands["evalsha"]; got != 3 || s.account != 10*time.Microsecond {
		t.Errorf("%v commands a hand-over of %v each, want 3: six during two", s.commands, s.account)
	}
	if s.client != time.Second || s.cpu != 2*time.Second || s.redis != 3*time.Second {
		t.Errorf("CPU a hand-over: %v of the client, %v of the proxy, %v of Redis", s.client, s.cpu, s.redis)
	}
}

// What goes to a node directly are only locks of that node, each request one
// command, and batches hold whole pairs.
func TestScriptPairs(t *testing.T) {
	first, last := scriptPairs("a:", 0), scriptPairs("a:", nodes-1)
	for _, commands := range [][][]byte{first, last, proxyPairs("a:")} {
		if len(commands) == 0 || len(commands)%(2*lockNames) != 0 {
			t.Fatalf("%d commands, want %d or a multiple", len(commands), 2*lockNames)
		}
	}
	for _, c := range first {
		for _, d := range last {
			if lockKey(c) == lockKey(d) {
				t.Fatalf("%s is on two nodes", lockKey(c))
			}
		}
	}
	next := inTurn(first, 16)
	for range 3 {
		for i := 0; i < len(first); i += 16 {
			if got, want := string(next(nil)), string(bytes.Join(first[i:i+16], nil)); got != want {
				t.Fatalf("batch at %d: %q, want %q", i, got, want)
			}
		}
	}
}

// lockKey is the first key of an EVALSHA: *n, $7, EVALSHA, $40, the hash, $1, 2, $n, the key.
func lockKey(request []byte) string {
	return strings.Split(string(request), "\r\n")[8]
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		args             string
		rounds, requests int
		fails            string
	}{
		{args: "", rounds: 5, requests: 100000},
		{args: "-quick", rounds: 2, requests: 40000},
		{args: "-quick -rounds 7", rounds: 7, requests: 40000},
		{args: "-only lock", rounds: 5, requests: 100000},
		{args: "-only redlock -quick", rounds: 2, requests: 40000},
		{args: "-only locks", fails: "forward, connections, churn, paced, memory"},
		{args: "-most 20000", fails: "50 to 10000"},
		{args: "-holds 75", fails: "a multiple of 50"},
		{args: "-rounds 0", fails: "1 to 1000"},
		{args: "-requests 10", fails: "1000 to"},
		{args: "-pipeline 5", fails: "divide 96"},
		{args: "forward", fails: "-flags only"},
	} {
		o, err := parse(strings.Fields(tt.args))
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%q: error %v, want %s", tt.args, err, tt.fails)
			}
			continue
		}
		if err != nil || o.rounds != tt.rounds || o.requests != tt.requests {
			t.Errorf("%q: %+v, %v", tt.args, o, err)
		}
	}
}

// A message that is lost, comes twice or is another one is an error, and so is one that somebody does not
// get.
func TestAudience(t *testing.T) {
	for _, tt := range []struct {
		name, messages, fails string
	}{
		{"all come", "*3 a", ""},
		{"another one", "*3 b", "want"},
		{"one too many", "*3 a*3 a", "want"},
		{"closed", "", "connection 1: EOF"},
	} {
		a := &broadcast{replies: []byte(":50"), messages: []byte("*3 a")}
		for _, text := range []string{":50", tt.messages} {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				t.Fatal(err)
			}
			a.readers = append(a.readers, reader{fd: fds[0]})
			unix.Write(fds[1], []byte(text))
			unix.Close(fds[1])
		}
		err := a.hear(t.Context(), nil, make([]byte, 64))
		if tt.fails == "" && err != nil || tt.fails != "" &&
			(err == nil || !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.fails)
		}
		a.close()
	}
}

// What Redis says before and after is shared out among the calls that were meant, and no others.
func TestAccounted(t *testing.T) {
	before := spending{calls: 100, usec: 1000}
	got, err := accounted(before, spending{calls: 300, usec: 1500}, 200)
	if err != nil || got != 2500*time.Nanosecond {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := accounted(before, spending{calls: 301, usec: 1500}, 200); err == nil {
		t.Error("one call too many and no error")
	}
}

func TestLeast(t *testing.T) {
	r := results{}
	for _, d := range []time.Duration{3, 1, 2} {
		r.add("scripts", "LOCK", sample{account: d * time.Microsecond})
	}
	if got := r.least("scripts", "LOCK", account); got != 1 {
		t.Errorf("got %v, want 1", got)
	}
	if got := r.least("scripts", "UNLOCK", account); !math.IsNaN(got) {
		t.Errorf("of nothing: %v", got)
	}
}

func TestParseMetrics(t *testing.T) {
	got := parseMetrics("# HELP lost Holds that were lost: 7.\n# TYPE lost counter\n" +
		"lost{reason=\"expired\"} 2\nlost{reason=\"two words\"} 1\nrenewals 1.5e+06\n\nbroken\n")
	if want := map[string]float64{"lost": 3, "renewals": 1.5e6}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What two readings differ by is shared out among the renewals between them.
func TestReadingUntil(t *testing.T) {
	begun := time.Now()
	first := reading{at: begun, proxy: time.Second, redis: 2 * time.Second, renewals: 1000,
		scripts: spending{100, 5000}}
	last := reading{at: begun.Add(4 * time.Second), proxy: 3 * time.Second, redis: 3 * time.Second,
		renewals: 3000, scripts: spending{300, 9000}}
	s := first.until(last)
	if s.rate != 500 || s.cpu != time.Millisecond || s.redis != 500*time.Microsecond ||
		s.account != 2*time.Microsecond || s.commands["evalsha"] != 0.1 {
		t.Errorf("%+v", s)
	}
	if s := last.until(last); s.rate != 0 || s.cpu != 0 {
		t.Errorf("without a renewal: %+v", s)
	}
}

// All connections together take each lock once.
func TestKeepingLocks(t *testing.T) {
	const holds = 4 * keepBatch
	next := keeping{lease: 9 * time.Second}.locks(holds)
	names := map[string]bool{}
	for range holds / keepBatch {
		for _, c := range strings.Split(string(next(nil)), "*5\r\n")[1:] {
			words := strings.Split(c, "\r\n")
			if words[1] != "LOCK" || words[5] != "PX" || words[7] != "9000" || words[9] != "KEEPALIVE" {
				t.Fatalf("%q", c)
			}
			names[words[3]] = true
		}
	}
	if len(names) != holds {
		t.Errorf("%d locks, want %d", len(names), holds)
	}
}

func TestResident(t *testing.T) {
	if n, err := resident(os.Getpid()); err != nil || n < 1<<20 || n > 1<<40 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := resident(1 << 30); err == nil {
		t.Error("no such process and no error")
	}
}

// The keys of a large command are of the size that its table tells, and of one slot or of all.
func TestSpreadings(t *testing.T) {
	for _, s := range spreadings {
		found := map[int]bool{}
		for i := range largeKeys {
			key := fmt.Sprintf(s.key, i)
			if len(key) != largeKeySize {
				t.Fatalf("%s: %q has %d bytes", s.name, key, len(key))
			}
			found[slot.Of([]byte(key))] = true
		}
		want := slots
		if strings.Contains(s.key, "{") {
			want = 1
		}
		if len(found) != want {
			t.Errorf("%s: %d slots, want %d", s.name, len(found), want)
		}
	}
}
