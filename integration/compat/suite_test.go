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
	t.Setenv(TreeVariable, tree(t, "7.0.15"))
	s, err := find("7.0.15")
	if err != nil {
		t.Fatal(err)
	}
	if files, err := s.Files(); err != nil || !slices.Equal(files, []string{"unit/a", "unit/b"}) {
		t.Errorf("files %v, %v", files, err)
	}
	cmd, err := s.Command(t.TempDir(), Play{File: "unit/a", Host: "127.0.0.1", Port: 7,
		Mode: []string{"--cluster-mode"},
		Tags: "-slow", Without: []string{"a b", "/c+"}, Ports: 1000, Stall: 9})
	if err != nil {
		t.Fatal(err)
	}
	want := `--host 127.0.0.1 --port 7 --cluster-mode --tags -slow --single unit/a --timeout 9 --durable ` +
		`--clients 1 ` +
		`--dont-clean --baseport 1032 --skiptest a b --skiptest /^/c\+$`
	if got := strings.Join(cmd.Args[2:], " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, name := range []string{"runtest", "tests/test_helper.tcl", "tests/tmp",
		"src/redis-cli", "utils/x"} {
		if _, err := os.Stat(filepath.Join(cmd.Dir, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := find("7.2.0"); err == nil || !strings.Contains(err.Error(), "7.0.15") {
		t.Errorf("a tree of another version: %v", err)
	}
	t.Setenv(TreeVariable, t.TempDir())
	if _, err := Find(); err == nil || !strings.Contains(err.Error(), "What helps:") ||
		!strings.Contains(err.Error(), TreeVariable) {
		t.Errorf("an empty tree: %v", err)
	}
}

func TestSettle(t *testing.T) {
	from, kept := tree(t, "7.0.15"), filepath.Join(t.TempDir(), "suite")
	for range 2 { // the second time it is there already
		s, err := settle(from, kept)
		if err != nil || s.Dir != kept {
			t.Fatalf("%+v %v", s, err)
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(kept)); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestMirrors(t *testing.T) {
	targets := `DEP-11 http://deb.debian.org/debian/ bookworm main
Packages http://deb.debian.org/debian/ bookworm main
Packages http://deb.debian.org/debian-security/ bookworm-security main
Packages http://deb.debian.org/debian/ bookworm main
Packages https://deb.nodesource.com/node_20.x/ nodistro main
Packages https://packages.example.com/apt/ tool-bookworm main
`
	want := []string{"http://deb.debian.org/debian/ bookworm main",
		"http://deb.debian.org/debian-security/ bookworm-security main"}
	if got := mirrors(targets, "bookworm"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := osField("ID=debian\nVERSION_CODENAME=\"bookworm\"\n", "VERSION_CODENAME"); got != "bookworm" {
		t.Errorf("codename %q", got)
	}
}
