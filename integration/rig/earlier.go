package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Earlier is the path of the program as it was at a commit of this repository, built once and kept in the
// user's cache. Only where the sources came without their history is there none, and the test is skipped.
func Earlier(t *testing.T, commit string) string {
	t.Helper()
	root := strings.TrimSpace(gitOutput(t, "rev-parse", "--show-toplevel"))
	if gitOutput(t, "rev-parse", "--is-shallow-repository") != "false\n" {
		t.Skipf("no history here, so commit %s is not there: git fetch --unshallow", commit)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "lockproxy-tests", "lockproxy-"+commit[:12])
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close() // and unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		return path
	}
	dir := t.TempDir()
	script := fmt.Sprintf(`set -e
git -C '%s' archive %s | tar -x -C '%s'
cd '%s'
CGO_ENABLED=0 go build -trimpath -o '%s.new' ./cmd/lockproxy
mv '%s.new' '%s'`, root, commit, dir, dir, path, path, path)
	if text, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("the program at %s: %v\n%s", commit, err, text)
	}
	return path
}

// gitOutput is what git says, "" where there is no repository.
func gitOutput(t *testing.T, args ...string) string {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		t.Logf("git %v: %v", args, err)
	}
	return string(out)
}
