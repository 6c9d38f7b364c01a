package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files that settings name are read with the settings, and what is wrong with them is told with the rest.
func TestErrorsOfFilesAreToldWithOthers(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	missing, there := t.TempDir()+"/missing", write("")
	path := write("upstream a:1\nmaxclients x\ntls-cert " + missing + "\ntls-key " + missing + "/2\n" +
		"tls-ca " + there + "\nupstream-password-file " + missing + "\naudit-log " + missing + "/log\n")
	_, _, _, err := loadAll(settingsFrom([]string{"--config", path}, nil))
	want := "2: maxclients x: maxclients couldn't be parsed into an integer; allowed: 1 to 1000000\n" +
		"3: tls-cert MISSING: no such file or directory\n" +
		"4: tls-key MISSING/2: no such file or directory\n" +
		"5: tls-ca " + there + ": needs certificates, as PEM, and has none\n" +
		"6: upstream-password-file MISSING: no such file or directory (it has to be a file that lockproxy " +
		"may read)\n" +
		"7: audit-log MISSING/log: no such file or directory"
	got := strings.ReplaceAll(strings.ReplaceAll(fmt.Sprint(err), path+":", ""), missing, "MISSING")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if entries, err := os.ReadDir(filepath.Dir(missing)); err != nil || len(entries) > 0 {
		t.Errorf("something was made: %v, %v", entries, err)
	}
}
