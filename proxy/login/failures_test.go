package login

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFailureCountGoesWithTheNextLine proves that what was not logged is told by the line that is.
func TestFailureCountGoesWithTheNextLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, f := slog.New(slog.NewTextHandler(&out, nil)), new(Failure)
		for i := range 5 {
			f.Note(log, fmt.Sprint("failed", i))
		}
		time.Sleep(LogEvery)
		f.Note(log, "failed again")
		if got := out.String(); strings.Count(got, "\n") != 2 ||
			!strings.Contains(got, `msg="failed again" not_logged=4`) {
			t.Errorf("log: %s", got)
		}
		if n := f.unlogged(); n != 0 {
			t.Errorf("%d of them once more", n)
		}
	})
}
