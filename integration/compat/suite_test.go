// Package compat runs Redis's own test suite against an address, in the suite's
// external mode, and reads what came of it.
//
//	findSuite ---> suite ---> command ---> the suite's log ---> parse ---> record ---> compare
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
	"testing"
)

// suite is a test suite: the parts of a source tree of Redis that it needs.
type suite struct {
	Dir     string // has runtest, tests/ and utils/; is only read
	product string // "redis" or "valkey", of the server that it belongs to
	version string // of it, such as "7.0.15"
}

// server is the server by its product and major version, such as "valkey9".
func (s *suite) server() string {
	major, _, _ := strings.Cut(s.version, ".")
	return s.product + major
}

// suiteTags leave out what does not run against a server that stands already: the suite's
// words for what is slow, what needs replicas or a disk, and what changes the server or its addresses.
const suiteTags = "-ipv6 -slow -needs:repl -needs:debug -needs:config-maxmemory -needs:reset " +
	"-needs:latency -needs:pfdebug -needs:save -needs:config-resetstat -large-memory"

// treeVariable names the environment variable in which an unpacked source tree of
// Redis can be given.
const treeVariable = "REDIS_TREE"

// findSuite finds the suite of the redis-server that PATH finds: in the tree that treeVariable names, or in
// what servers.sh fetches. Its errors say what to do.
func findSuite() (*suite, error) {
	s := &suite{Dir: os.Getenv(treeVariable)}
	var err error
	if s.product, s.version, err = installed(); err != nil {
		return nil, err
	}
	if s.Dir == "" {
		fetch := exec.Command("../servers.sh", "source", s.server())
		fetch.Stderr = &bytes.Buffer{}
		var out []byte
		if out, err = fetch.Output(); err != nil {
			err = fmt.Errorf("servers.sh source %s: %w\n%s", s.server(), err, fetch.Stderr)
		}
		s.Dir = strings.TrimSpace(string(out))
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, fmt.Errorf("no test suite of %s %s, the version of redis-server here: %w\nWhat helps: "+
			"let apt-get reach a mirror of Debian, or unpack the source of that version, and name it: "+
			"%s=/path/to/it make test", s.product, s.version, err, treeVariable)
	}
	return s, nil
}

// check says why a directory is no source tree of the version.
func (s *suite) check() (err error) {
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return err
	}
	header, err := os.ReadFile(filepath.Join(s.Dir, "src", "version.h"))
	if err == nil && !bytes.Contains(header, []byte(`"`+s.version+`"`)) {
		err = fmt.Errorf("%s is of another version: %s", s.Dir, bytes.TrimSpace(header))
	}
	return err
}

var serverVersion = regexp.MustCompile(`^(\w+) .*v=([0-9]+\.[0-9]+\.[0-9]+)`)

// installed is the redis-server that PATH finds.
func installed() (product, version string, err error) {
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

// files are the names of all files of the suite, such as "unit/type/list".
func (s *suite) files() ([]string, error) {
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

// playing is one run of one file of the suite.
type playing struct {
	file      string
	host      string
	port      int
	mode      []string // of the suite: none, --singledb or --cluster-mode
	suiteTags string
	without   []string // names of tests to leave out
	ports     int      // first of a few ports that the suite itself may listen on
	stall     int      // seconds without progress after which the suite gives up
}

// listeners is how far below --baseport the suite's own port may be.
const listeners = 32

// command is p, ready to be started, in a copy of the suite that is made in dir, an
// empty directory.
func (s *suite) command(dir string, p playing) (*exec.Cmd, error) {
	if err := s.copy(dir); err != nil {
		return nil, err
	}
	args := append([]string{"./runtest", "--host", p.host, "--port", strconv.Itoa(p.port)}, p.mode...)
	args = append(args, "--tags", p.suiteTags, "--single", p.file, "--timeout", strconv.Itoa(p.stall),
		"--durable", "--clients", "1", "--dont-clean", "--baseport", strconv.Itoa(p.ports+listeners))
	for _, name := range p.without {
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
func (s *suite) copy(dir string) error {
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
	_, version, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(treeVariable, tree(t, version))
	s, err := findSuite()
	if err != nil {
		t.Fatal(err)
	}
	if files, err := s.files(); err != nil || !slices.Equal(files, []string{"unit/a", "unit/b"}) {
		t.Errorf("files %v, %v", files, err)
	}
	cmd, err := s.command(t.TempDir(), playing{file: "unit/a", host: "127.0.0.1", port: 7,
		mode: []string{"--cluster-mode"}, suiteTags: "-slow", without: []string{"a b", "/c+"}, ports: 1000,
		stall: 9})
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
		t.Setenv(treeVariable, other)
		if _, err := findSuite(); err == nil || !strings.Contains(err.Error(), "What helps:") ||
			!strings.Contains(err.Error(), treeVariable) {
			t.Errorf("a tree of another version, or an empty one: %v", err)
		}
	}
}
