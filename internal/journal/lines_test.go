package journal

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// However many lines come, few are written, and none is lost from the count.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		log := slog.New(slog.NewTextHandler(&text, nil))
		var lines Lines
		for range 2 {
			for i := range 1000 {
				lines.Write(log, slog.LevelWarn, "lock lost", "number", i)
			}
			time.Sleep(Each + time.Second)
		}
		lines.Write(log, slog.LevelWarn, "lock lost", "number", 1)
		synctest.Wait()
		all := strings.Split(strings.TrimSpace(text.String()), "\n")
		if len(all) != 2*(Most+1)+1 || !strings.Contains(all[Most], `msg="lock lost" not_logged=990`) ||
			!strings.Contains(all[2*Most+1], "not_logged=990") {
			t.Errorf("%d lines:\n%s", len(all), text.String())
		}
	})
}
