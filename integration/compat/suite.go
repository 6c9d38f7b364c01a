// Package compat runs Redis's own test suite against an address, in the suite's
// external mode, and reads what came of it.
//
//	Find ---> Suite ---> Command ---> the suite's log ---> Parse ---> Record ---> Compare
//
// The servers and the proxy that stand at the address are its caller's (suite_redis_test.go).
package compat

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Suite is a test suite: the parts of a source tree of Redis that it needs.
type Suite struct {
	Dir     string // has runtest, tests/ and utils/; is only read
	Product string // "redis" or "valkey", of the server that it belongs to
	Version string // of it, such as "7.0.15"
}

// Server is the server by its product and major version, such as "valkey9".
func (s *Suite) Server() string {
	major, _, _ := strings.Cut(s.Version, ".")
	return s.Product + major
}

// Tags leave out what does not run against a server that stands already: the suite's
// words for what is slow, what needs replicas or a disk, and what changes the server or its addresses.
const Tags = "-ipv6 -slow -needs:repl -needs:debug -needs:config-maxmemory -needs:reset -needs:latency " +
	"-needs:pfdebug -needs:save -needs:config-resetstat -large-memory"

// TreeVariable names the environment variable in which an unpacked source tree of
// Redis can be given.
const TreeVariable = "REDIS_TREE"

// Find finds the suite of the redis-server that PATH finds: in the tree that TreeVariable names, or in what
// servers.sh fetches. Its errors say what to do.
func Find() (*Suite, error) {
	s := &Suite{Dir: os.Getenv(TreeVariable)}
	var err error
	if s.Product, s.Version, err = Installed(); err != nil {
		return nil, err
	}
	if s.Dir == "" {
		fetch := exec.Command("../servers.sh", "source", s.Server())
		fetch.Stderr = &bytes.Buffer{}
		var out []byte
		if out, err = fetch.Output(); err != nil {
			err = fmt.Errorf("servers.sh source %s: %w\n%s", s.Server(), err, fetch.Stderr)
		}
		s.Dir = strings.TrimSpace(string(out))
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, fmt.Errorf("no test suite of %s %s, the version of redis-server here: %w\nWhat helps: "+
			"let apt-get reach a mirror of Debian, or unpack the source of that version, and name it: "+
			"%s=/path/to/it make test", s.Product, s.Version, err, TreeVariable)
	}
	return s, nil
}

// check says why a directory is no source tree of the version.
func (s *Suite) check() (err error) {
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return err
	}
	header, err := os.ReadFile(filepath.Join(s.Dir, "src", "version.h"))
	if err == nil && !bytes.Contains(header, []byte(`"`+s.Version+`"`)) {
		err = fmt.Errorf("%s is of another version: %s", s.Dir, bytes.TrimSpace(header))
	}
	return err
}

var serverVersion = regexp.MustCompile(`^(\w+) .*v=([0-9]+\.[0-9]+\.[0-9]+)`)

// Installed is the redis-server that PATH finds.
func Installed() (product, version string, err error) {
	out, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return "", "", fmt.Errorf("redis-server --version: %w", err)
	}
	found := serverVersion.FindSubmatch(out)
	if found == nil {
		return "", "", fmt.Errorf("redis-server --version says no version: %q", out)
	}
	return strings.ToLower(string(found[1])), string(found[2]), nil
}

// Files are the names of all files of the suite, such as "unit/type/list".
func (s *Suite) Files() ([]string, error) {
	cmd := exec.Command("sh", "./runtest", "--list-tests")
	cmd.Dir = s.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("runtest --list-tests: %w\n%s", err, out)
	}
	var files []string
	for _, file := range strings.Fields(string(out)) {
		if !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files, nil
}

// Play is one run of one file of the suite.
type Play struct {
	File    string
	Host    string
	Port    int
	Mode    []string // of the suite: none, --singledb or --cluster-mode
	Tags    string
	Without []string // names of tests to leave out
	Ports   int      // first of a few ports that the suite itself may listen on
	Stall   int      // seconds without progress after which the suite gives up
}

// listeners is how far below --baseport the suite's own port may be.
const listeners = 32

// Command is p, ready to be started, in a copy of the suite that is made in dir, an
// empty directory.
func (s *Suite) Command(dir string, p Play) (*exec.Cmd, error) {
	if err := s.copy(dir); err != nil {
		return nil, err
	}
	args := append([]string{"./runtest", "--host", p.Host, "--port", strconv.Itoa(p.Port)}, p.Mode...)
	args = append(args, "--tags", p.Tags, "--single", p.File, "--timeout", strconv.Itoa(p.Stall),
		"--durable", "--clients", "1", "--dont-clean", "--baseport", strconv.Itoa(p.Ports+listeners))
	for _, name := range p.Without {
		if strings.HasPrefix(name, "/") { // which the suite takes for a regular expression
			name = "/^" + regexp.QuoteMeta(name) + "$"
		}
		args = append(args, "--skiptest", name)
	}
	cmd := exec.Command("sh", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TERM=dumb", "LC_ALL=C.UTF-8") // no colours in the log
	return cmd, nil
}

// copy copies the suite, which writes into its own directories, to dir, and puts the
// programs that PATH finds where the suites of Redis and of Valkey look for them.
func (s *Suite) copy(dir string) error {
	for _, part := range []string{"runtest", "tests", "utils"} {
		out, err := exec.Command("cp", "-R", filepath.Join(s.Dir, part), dir).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s is no source tree of Redis: %w\n%s", s.Dir, err, out)
		}
	}
	for _, sub := range []string{"src", "tests/tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	for _, tool := range []string{"server", "cli", "benchmark"} {
		redis, err := exec.LookPath("redis-" + tool)
		if err != nil {
			return err
		}
		valkey, err := exec.LookPath("valkey-" + tool)
		if err != nil {
			valkey = redis
		}
		for name, path := range map[string]string{"redis-": redis, "valkey-": valkey} {
			if err := os.Symlink(path, filepath.Join(dir, "src", name+tool)); err != nil {
				return err
			}
		}
	}
	return nil
}
