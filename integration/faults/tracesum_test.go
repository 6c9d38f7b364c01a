package faults

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
)

// What `make traces` says.
var (
	traceOps = flag.Int("ops", 0,
		"traces go on until they have that many operations, or for as long as -for says; 0: by time alone")
	traceServer  = flag.String("server", "redis7", "the servers of traces, one of rig.Products")
	traceFigures = flag.String("figures", "", "add what traces have come to, in JSON, to this file")
)

// traceSum is what traces have come to: a line of that file. A later line of the same seed says more.
type traceSum struct {
	Test       string         `json:"test"`
	Server     string         `json:"server"`
	Seed       uint64         `json:"seed"`
	When       time.Time      `json:"when"`
	Took       float64        `json:"took"` // seconds
	Rounds     int            `json:"rounds"`
	Ops        int            `json:"ops"`
	Unanswered int            `json:"unanswered"`
	Grants     int            `json:"grants"`
	Faults     map[string]int `json:"faults"`
	Exceptions map[string]int `json:"exceptions"`
	Violations int            `json:"violations"`
}

// keep adds the sum so far to the file of -figures.
func (f *figures) keep(t *testing.T, seed uint64, begun time.Time) {
	t.Helper()
	if *traceFigures == "" {
		return
	}
	test, product, _ := strings.Cut(t.Name(), "/")
	server := *traceServer
	if test == "TestMovingSlotsTraces" {
		server = product
	} else {
		test = t.Name()
	}
	line, err := json.Marshal(traceSum{Test: test, Server: server, Seed: seed,
		When: time.Now().Truncate(time.Second), Took: time.Since(begun).Seconds(), Rounds: f.rounds,
		Ops:        f.ops,
		Unanswered: len(f.unanswered), Grants: f.grants, Faults: f.faults, Exceptions: f.exceptions,
		Violations: f.violations})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(*traceFigures, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = file.Write(append(line, '\n'))
		file.Close()
	}
	if err != nil {
		t.Error(err)
	}
}
