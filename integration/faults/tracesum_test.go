package faults

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"lockproxy/integration/trace"
)

// What `make traces` says.
var (
	traceOps = flag.Int("ops", 0,
		"traces go on until they have that many operations, or for as long as -for says; 0: some hundred")
	traceServer  = flag.String("server", "redis7", "the servers of traces, one of rig.Products")
	traceFigures = flag.String("figures", "", "add what traces have come to, in JSON, to this file")
)

// keep adds the sum so far to the file of -figures.
func (f *figures) keep(t *testing.T, seed uint64, begun time.Time) {
	t.Helper()
	if *traceFigures == "" {
		return
	}
	line, err := json.Marshal(trace.Sum{Test: t.Name(), Server: *traceServer, Seed: seed,
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
