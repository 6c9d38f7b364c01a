package faults

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"
)

// What `make traces` says.
var (
	traceOps = flag.Int("ops", 0,
		"traces go on until they have that many operations, or for as long as -for says; 0: some hundred")
	traceServer    = flag.String("server", "redis7", "the servers of traces, one of rig.Products")
	traceHistories = flag.String("histories", "",
		"a directory that all histories of traces are kept in; \"\": only those with violations, elsewhere")
	traceFigures = flag.String("figures", "", "add what traces have come to, in JSON, to this file")
)

// keep adds the sum so far to the file of -figures.
func (f *figures) keep(t *testing.T, begun time.Time) {
	t.Helper()
	if *traceFigures == "" {
		return
	}
	f.When, f.Took = time.Now().Truncate(time.Second), time.Since(begun).Seconds()
	line, err := json.Marshal(f.Sum)
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
