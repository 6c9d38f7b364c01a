package redlock

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An outage of 30 s in which a hundred locks cannot be given back is a line: it has others besides.
func TestUndoneIsFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		log := slog.New(slog.NewTextHandler(&text, nil))
		var u Undone
		began := time.Now()
		for time.Since(began) < 30*time.Second {
			for range 100 {
				u.Failed(log, began, errors.New("Redis is away"))
			}
			time.Sleep(2 * time.Second)
			if time.Since(began) == 8*time.Second && text.Len() > 0 {
				t.Errorf("an outage of 8 s:\n%s", text.String())
			}
		}
		if n := strings.Count(text.String(), "\n"); n != 1 {
			t.Errorf("%d lines in 30 s:\n%s", n, text.String())
		}
		time.Sleep(time.Minute)
		u.Failed(log, began, errors.New("Redis is away"))
		n := strings.Count(text.String(), "\n")
		if n != 2 || !strings.Contains(text.String(), "not_logged=") {
			t.Errorf("%d lines:\n%s", n, text.String())
		}
	})
}
