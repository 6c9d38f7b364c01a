package compat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// TreeVariable names the environment variable in which an unpacked source tree of
// Redis can be given.
const TreeVariable = "REDIS_TREE"

// Find finds the suite of the installed redis-server: in the tree that TreeVariable
// names, where an earlier call has left it, or among the sources of the system's
// packages. Its errors say what to do.
func Find() (*Suite, error) {
	product, version, err := Installed()
	if err != nil {
		return nil, err
	}
	s, err := find(version)
	if err != nil {
		return nil, fmt.Errorf("no test suite of Redis %s, the version of redis-server here: %w\n%s",
			version, err, remedy(version))
	}
	s.Product, s.Version = product, version
	return s, nil
}

func find(version string) (*Suite, error) {
	if tree := os.Getenv(TreeVariable); tree != "" {
		return given(tree, version)
	}
	kept, err := keep(version)
	if err != nil {
		return nil, err
	}
	if s, err := At(kept); err == nil {
		return s, nil
	}
	work, err := os.MkdirTemp("", "lockproxy-suite-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	tree, err := aptSource(work, version)
	if err != nil {
		return nil, err
	}
	return settle(tree, kept)
}

func remedy(version string) string {
	return fmt.Sprintf(`What helps:
  - Debian, Ubuntu: let "apt-get source redis" reach a package mirror (it uses the mirrors that apt
    uses here, and the package dpkg-dev), then run this again; what it finds is kept
  - anywhere: unpack the source of Redis %s, and name it: %s=/path/to/redis-%s make test`,
		version, TreeVariable, version)
}

// given is the tree that the user names; it must be of the server's version.
func given(tree, version string) (*Suite, error) {
	s, err := At(tree)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", TreeVariable, err)
	}
	header, err := os.ReadFile(filepath.Join(tree, "src", "version.h"))
	if err == nil && !bytes.Contains(header, []byte(`"`+version+`"`)) {
		return nil, fmt.Errorf("%s=%s is of another version: %s", TreeVariable, tree, bytes.TrimSpace(header))
	}
	return s, nil
}

// keep is where the suite of a version is kept.
func keep(version string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "lockproxy")
	return filepath.Join(cache, "redis-suite-"+version), os.MkdirAll(cache, 0o755)
}

// settle puts a tree's suite where it is kept, in one step.
func settle(tree, kept string) (*Suite, error) {
	part, err := os.MkdirTemp(filepath.Dir(kept), "suite-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(part)
	if err := take(tree, part); err != nil {
		return nil, err
	}
	if err := os.Chmod(part, 0o755); err != nil {
		return nil, err
	}
	if err := os.Rename(part, kept); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err // somebody else may have been faster
	}
	return At(kept)
}

// aptSource fetches and unpacks the source package of redis-server with apt, whose own
// lists and settings it leaves alone: everything goes to dir.
func aptSource(dir, version string) (tree string, err error) {
	if err := aptTools(); err != nil {
		return "", err
	}
	sources, err := sourceLines()
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "sources.list")
	if err := os.WriteFile(list, []byte(sources), 0o644); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(dir, "lists", "partial"), 0o755); err != nil {
		return "", err
	}
	apart := []string{"-q", "-o", "Dir::Etc::sourcelist=" + list, "-o", "Dir::Etc::sourceparts=-",
		"-o", "Dir::State::lists=" + filepath.Join(dir, "lists"), "-o",
		"Dir::Cache=" + filepath.Join(dir, "cache"),
		"-o", "APT::Sandbox::User=", "-o", "APT::Update::Error-Mode=any", "-o", "Acquire::Retries=1",
		"-o", "Acquire::http::Timeout=30", "-o", "Acquire::https::Timeout=30"}
	if err := run(dir, "apt-get", apart, "update"); err != nil {
		return "", err
	}
	for _, name := range sourceNames(version) {
		if err = run(dir, "apt-get", apart, "source", name); err != nil {
			continue
		}
		found, _ := filepath.Glob(filepath.Join(dir, "*-"+version, "runtest"))
		if len(found) == 1 {
			return filepath.Dir(found[0]), nil
		}
		err = fmt.Errorf("apt-get source %s has brought another version", name)
	}
	return "", err
}

// aptTools says what apt needs and is not here.
func aptTools() error {
	for tool, from := range map[string]string{
		"apt-get":     "Debian or Ubuntu",
		"dpkg-source": "the package dpkg-dev"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("no %s here (it comes with %s)", tool, from)
		}
	}
	return nil
}

// sourceNames are the source package in its installed version, and in any.
func sourceNames(version string) (names []string) {
	out, err := exec.Command("dpkg-query", "-W", "-f", "${source:Package} ${source:Version}",
		"redis-server").Output()
	if f := strings.Fields(string(out)); err == nil && len(f) == 2 && strings.Contains(f[1], version) {
		return []string{f[0] + "=" + f[1], f[0]}
	}
	return []string{"redis"}
}

// run runs a program in dir, for as long as a slow network may take; its output goes into
// the error.
func run(dir, name string, options []string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, slices.Concat(options, args)...)
	cmd.WaitDelay = time.Second
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(string(out), 20))
	}
	return nil
}

func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
