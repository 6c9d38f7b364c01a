package clients

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"lockproxy/integration/rig"
)

// startPostgres starts a PostgreSQL of its own, empty and on 127.0.0.1, and returns the variables of the
// environment with which psql finds it.
func startPostgres(t *testing.T) (env []string) {
	t.Helper()
	// The directory belongs to an ordinary user, because PostgreSQL refuses to run as root.
	parent, err := os.MkdirTemp("", "lockproxy-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(parent) })
	dir := filepath.Join(parent, "data")
	if err := errors.Join(os.Chmod(parent, 0o711), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	attr := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		attr.Credential = ordinary(t)
		if err := os.Chown(dir, int(attr.Credential.Uid), int(attr.Credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(postgresTool(t, name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, attr
		return cmd
	}
	if out, err := command("initdb", "-D", dir, "-U", "test", "-A", "trust", "-N", "--locale", "C",
		"-E", "UTF8").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := strconv.Itoa(rig.FreePort(t))
	p := rig.StartCommand(t, command("postgres", "-D", dir, "-p", port, "-h", "127.0.0.1", "-F", "-k", ""))
	t.Cleanup(func() {
		p.Signal(syscall.SIGQUIT) // it gives its shared memory back then
		<-p.Done
	})
	env = []string{"PGHOST=127.0.0.1", "PGPORT=" + port, "PGUSER=test", "PGDATABASE=postgres"}
	rig.Eventually(t, rig.Patience, "PostgreSQL answers", func() bool {
		cmd := exec.Command(postgresTool(t, "psql"), "-XAtc", "SELECT 1")
		cmd.Env = append(os.Environ(), env...)
		return cmd.Run() == nil
	})
	return env
}

// ordinary is a user who is not root: the one that the system's package makes, or nobody.
func ordinary(t *testing.T) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// postgresTool is a program of PostgreSQL, which Debian does not put into PATH.
func postgresTool(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, where := range []string{"/usr/lib/postgresql/*/bin/", "/opt/homebrew/opt/postgresql@*/bin/",
		"/usr/local/opt/postgresql@*/bin/"} {
		if all, _ := filepath.Glob(where + name); len(all) > 0 {
			return all[len(all)-1]
		}
	}
	t.Fatalf("%s is not installed: run integration/install.sh, or make test", name)
	return ""
}
