// Package deploy has the files of docs/deploy judged by the tools that they are for: systemd-analyze and
// promtool in `make test`, Helm in `make chart`.
package deploy

import (
	"os"
	"path/filepath"
	"testing"
)

const folder = "../../docs/deploy"

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
