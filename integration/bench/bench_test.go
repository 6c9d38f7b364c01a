package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/page"
	"lockproxy/integration/rig"
)

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
		{args: "-rounds 0", fails: "1 to 1000"},
		{args: "-requests 10", fails: "1000 to"},
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

// Rounds are compared with themselves: a machine that is slower in one of them
// is slower for both.
func TestRatio(t *testing.T) {
	r := results{}
	for _, speed := range []float64{1, 10, 100} {
		r.add("GET", "ours", sample{rate: 80 * speed})
		r.add("GET", "theirs", sample{rate: 100 * speed})
	}
	if got := r.versus("GET", "ours", "theirs", rate); got.Median != 0.8 {
		t.Errorf("got %v, want 0.8", got)
	}
	if got := r.versus("GET", "ours", "theirs", cpu); got != nil {
		t.Errorf("of what was not measured: %v", got)
	}
}

// A cell is empty where nothing was measured, and a row is left out where nobody was.
func TestResultsTable(t *testing.T) {
	r := results{}
	for _, f := range []float64{3, 1, 2} {
		r.add("GET", "direct", sample{rate: f})
		r.add("GET", "proxy", sample{rate: 2 * f, cpu: f})
	}
	got := r.table([]string{"GET", "SET"}, []way{{name: "direct"}, {name: "proxy"}}, whole("rate"),
		ofBase("direct", rate), hundredths("CPU", cpu), column{head: "least", format: "%.0f", of: rate,
			pick: slices.Min[[]float64]})
	want := page.Table{{"", "rate", "of direct", "CPU", "least"}, {"GET, direct", "2", "1.00", "", "1"},
		{"GET, proxy", "4", "2.00", "2.00", "2"}}.String()
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Each way is first in its turn.
func TestRounds(t *testing.T) {
	y := &yard{o: options{rounds: 3}}
	var order []string
	y.rounds(results{}, []way{{name: "a"}, {name: "b"}}, []string{"x"}, func(_ int, w way) sample {
		order = append(order, w.name)
		return nil
	})
	if got := strings.Join(order, ""); got != "abbaab" {
		t.Errorf("in the order %s", got)
	}
}

// What was used between two readings is shared out among the requests, of the client and the proxy also as
// requests for a second of their CPU, and what scripts call is told from what clients send.
func TestSpent(t *testing.T) {
	first := reading{client: time.Second, proxy: 2 * time.Second, redis: 3 * time.Second,
		ran: map[string]spending{"evalsha": {100, 5000}, "get": {7, 7}}}
	last := reading{client: 2 * time.Second, proxy: 5 * time.Second, redis: 13 * time.Second,
		ran: map[string]spending{"evalsha": {2100, 15000}, "get": {1007, 4007}, "set": {500, 1}}}
	w := way{proxies: []*rig.Process{nil}, servers: []*rig.Server{nil}}
	s := w.spent(sample{}, last.plus(-1, first), 1000).scripted(map[string]bool{"get": true})
	for f, want := range map[figure]float64{clientCPU: 1000, cpu: 3000, redisCPU: 10000, perCPU: 250,
		ran("evalsha"): 2, evalsha: 5, ran("get"): 1, usecOf("get"): 4, commands: 3.5, sent: 2.5, inside: 2} {
		if s[f] != want {
			t.Errorf("%s: %v, want %v", f, s[f], want)
		}
	}
	if _, ok := (way{}).spent(sample{}, last, 1)[cpu]; ok {
		t.Error("CPU of no proxy")
	}
	if got := s.listed(map[string]bool{"get": true}); got != "evalsha 2.0, *get* 1.0, set 0.5" {
		t.Errorf("listed as %s", got)
	}
}
