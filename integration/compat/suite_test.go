package compat

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree makes a directory with what a source tree of Redis has.
func tree(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"runtest": "echo unit/a; echo unit/b; echo unit/a\n", "tests/test_helper.tcl": "", "utils/x": "",
		"src/version.h": "#define REDIS_VERSION \"" + version + "\"\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTreeThatIsGiven(t *testing.T) {
	_, version, err := Installed()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(TreeVariable, tree(t, version))
	s, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if files, err := s.Files(); err != nil || !slices.Equal(files, []string{"unit/a", "unit/b"}) {
		t.Errorf("files %v, %v", files, err)
	}
	cmd, err := s.Command(t.TempDir(), Play{File: "unit/a", Host: "127.0.0.1", Port: 7,
		Mode: []string{"--cluster-mode"}, Tags: "-slow", Without: []string{"a b", "/c+"}, Ports: 1000,
		Stall: 9})
	if err != nil {
		t.Fatal(err)
	}
	want := `--host 127.0.0.1 --port 7 --cluster-mode --tags -slow --single unit/a --timeout 9 --durable ` +
		`--clients 1 --dont-clean --baseport 1032 --skiptest a b --skiptest /^/c\+$`
	if got := strings.Join(cmd.Args[2:], " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, name := range []string{"runtest", "tests/test_helper.tcl", "tests/tmp", "src/redis-cli",
		"utils/x"} {
		if _, err := os.Stat(filepath.Join(cmd.Dir, name)); err != nil {
			t.Error(err)
		}
	}
	for _, other := range []string{tree(t, "1.2.3"), t.TempDir()} {
		t.Setenv(TreeVariable, other)
		if _, err := Find(); err == nil || !strings.Contains(err.Error(), "What helps:") ||
			!strings.Contains(err.Error(), TreeVariable) {
			t.Errorf("a tree of another version, or an empty one: %v", err)
		}
	}
}
