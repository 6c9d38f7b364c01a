package files

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cmd/lockproxy/settings"
)

// A file of detours that cannot be used changes nothing; its mistake names the setting.
func TestDetoursFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "map")
	v := &settings.Values{DetoursFile: file}
	var table LiveDetours
	if at := table.Of("10.0.0.5:6379"); at != "10.0.0.5:6379" {
		t.Errorf("without detours it is at %s", at)
	}
	for _, step := range []struct{ text, wrong, at string }{
		{"# all\n10.0.0.5:6379=127.0.0.1:7001 # the first\n10.0.0.6=db6.example\n", "", "127.0.0.1:7001"},
		{"10.0.0.5:6379\n", "upstream-map-file " + file + `: "10.0.0.5:6379" is not like`, "127.0.0.1:7001"},
		{"10.0.0.5:6379=127.0.0.1:7002", "", "127.0.0.1:7002"},
		{"", "", "10.0.0.5:6379"},
	} {
		if err := os.WriteFile(file, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadDetours(v)
		if err == nil != (step.wrong == "") || err != nil && !strings.HasPrefix(err.Error(), step.wrong) {
			t.Errorf("%q: %v", step.text, err)
		}
		table.Follow(v)
		if at := table.Of("10.0.0.5:6379"); at != step.at {
			t.Errorf("%q: it is at %s, want %s", step.text, at, step.at)
		}
	}
}

// A mistake that comes again is told again.
func TestDetoursFileIsWrongTwice(t *testing.T) {
	file := filepath.Join(t.TempDir(), "map")
	synctest.Test(t, func(t *testing.T) {
		v := &settings.Values{DetoursFile: file}
		var table LiveDetours
		var log bytes.Buffer
		go table.Watch(t.Context(), settings.NewConfig(v), slog.New(slog.NewTextHandler(&log, nil)))
		for _, text := range []string{"a=b", "a", "a=b", "a"} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * rereadEvery)
		}
		synctest.Wait()
		if n := strings.Count(log.String(), "cannot be reread"); n != 2 {
			t.Errorf("told %d times:\n%s", n, &log)
		}
	})
}
