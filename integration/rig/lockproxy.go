package rig

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var (
	raced = sync.OnceValues(func() (string, error) { return build("lockproxy-race", "-race") })
	plain = sync.OnceValues(func() (string, error) { return build("lockproxy", "-trimpath") })
)

// Binary is the path of the program under test: as users run it, or with the race detector (Raced).
func Binary(l Life) string {
	l.Helper()
	if *Raced {
		return built(l, raced)
	}
	return built(l, plain)
}

// LeanBinary is the path of the program as users run it, for tests that count what it uses.
func LeanBinary(l Life) string { l.Helper(); return built(l, plain) }

func built(l Life, build func() (string, error)) string {
	l.Helper()
	path, err := build()
	if err != nil {
		l.Fatalf("%v", err)
	}
	return path
}

// build builds the program where all packages of tests find it, since `go build` links nothing that is up to
// date, and gives this process a name of its own for the file.
func build(name string, flags ...string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "lockproxy-tests")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock, err := os.Create(filepath.Join(cache, name+".lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close() // and unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	path := filepath.Join(cache, name)
	args := append([]string{"build", "-o", path}, flags...)
	compile := exec.Command("go", append(args, "lockproxy/cmd/lockproxy")...)
	compile.Env = os.Environ()
	if slices.Contains(flags, "-race") {
		compile.Env = append(compile.Env, "CGO_ENABLED=1")
	} else { // like a release, so that both share what is compiled
		compile.Env = append(compile.Env, "CGO_ENABLED=0")
	}
	if text, err := compile.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build lockproxy/cmd/lockproxy: %v\n%s", err, text)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	own := filepath.Join(packageLife.TempDir(), name)
	return own, os.WriteFile(own, program, 0o755)
}

// Proxy is the program under test while it serves.
type Proxy struct {
	*Process
	Addr  string // where clients connect
	Admin string // URL of the admin listener, without a slash at its end
}

// StartProxy starts the program under test and waits until it serves. Unless args say otherwise it listens
// on free ports of loopback. When l ends it is drained, must exit 0, and its log must be clean.
func StartProxy(l Life, args ...string) *Proxy {
	l.Helper()
	return StartBinary(l, Binary(l), args...)
}

// StartRaced is StartProxy with the race detector, for tests in which goroutines of the program meet in ways
// that no test inside of its packages has.
func StartRaced(l Life, args ...string) *Proxy {
	l.Helper()
	return StartBinary(l, built(l, raced), args...)
}

// StartBinary is StartProxy for the program at path.
func StartBinary(l Life, path string, args ...string) *Proxy {
	l.Helper()
	for _, name := range []string{"--listen", "--admin"} {
		given := func(arg string) bool { return arg == name || strings.HasPrefix(arg, name+"=") }
		if !slices.ContainsFunc(args, given) {
			args = append([]string{name, "127.0.0.1:0"}, args...)
		}
	}
	p := &Proxy{Process: StartProcess(l, path, args...)}
	l.Cleanup(func() { p.Drain(l) })
	p.Admin = "http://" + p.Logged(l, `msg="admin listening" addr=(\S+)`)
	p.Addr = p.Logged(l, `msg=listening addr=(\S+)`)
	return p
}

// Logged waits until the log has what pattern matches, and returns its group.
func (p *Proxy) Logged(l Life, pattern string) (group string) {
	l.Helper()
	re := regexp.MustCompile(pattern)
	p.Await(l, "logging "+pattern, func() bool {
		found := re.FindStringSubmatch(p.Log.String())
		if found != nil {
			group = found[len(found)-1]
		}
		return found != nil
	})
	return group
}

var crash = regexp.MustCompile(`(?m)^(panic:|fatal error:|WARNING: DATA RACE|.*\bpanic\b.*)`)

// Drain ends a proxy that still runs as SIGTERM does, and reads its log.
func (p *Proxy) Drain(l Life) {
	l.Helper()
	if !p.Ended() {
		p.Signal(syscall.SIGCONT)
		p.Signal(syscall.SIGTERM)
		if code := p.Wait(Patience); code != 0 {
			l.Errorf("lockproxy ended with %d after SIGTERM (-1: not within %v)\n%s", code,
				Patience, p.Log.Tail())
		}
	}
	if found := crash.FindString(p.Log.String()); found != "" {
		l.Errorf("lockproxy logged %q:\n%s", found, p.Log)
	}
}

// Get asks the admin listener.
func (p *Proxy) Get(path string) (status int, body string, err error) {
	client := http.Client{Timeout: Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(p.Admin + path)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, string(b), err
}

// Metric is the sum of a family's samples in /metrics whose labels hold all of
// with; 0 if there is none.
func (p *Proxy) Metric(l Life, family string, with ...string) float64 {
	l.Helper()
	status, body, err := p.Get("/metrics")
	if err != nil || status != http.StatusOK {
		l.Fatalf("/metrics: %d %v", status, err)
	}
	sum := 0.0
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		name, labels, _ := strings.Cut(name, "{")
		other := func(label string) bool { return !strings.Contains(labels, label) }
		if name != family || slices.ContainsFunc(with, other) {
			continue
		}
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			l.Fatalf("/metrics: %s", lines.Text())
		}
		sum += f
	}
	return sum
}

// Usage is what a proxy has open.
type Usage struct{ Goroutines, Descriptors float64 }

// Usage is what the proxy has open now.
func (p *Proxy) Usage(l Life) Usage {
	l.Helper()
	return Usage{p.Metric(l, "go_goroutines"), p.Metric(l, "process_open_fds")}
}

// ReturnsTo waits until the proxy uses no more than it did, within a few goroutines of its own.
func (p *Proxy) ReturnsTo(l Life, before Usage) {
	l.Helper()
	var now Usage
	if !until(Patience, func() bool {
		now = p.Usage(l)
		return now.Goroutines <= before.Goroutines+3 && now.Descriptors <= before.Descriptors+3
	}) {
		l.Fatalf("left behind: %+v, and was %+v", now, before)
	}
}

// Topologies and proxies that tests share which do not disturb one another:
// they use keys of their own, flush nothing and stop nothing.
var (
	SharedRedis   = Shared(func(l Life) *Server { return StartRedis(l) })
	SharedCluster = Shared(func(l Life) *Cluster { return StartCluster(l, 3, 0) })

	SharedOverRedis = Shared(func(l Life) *Proxy {
		return StartProxy(l, "--upstream", SharedRedis().Addr)
	})
	SharedOverCluster = Shared(func(l Life) *Proxy {
		return StartProxy(l, "--upstream", SharedCluster().Addrs())
	})
)

// Everywhere runs a test against each kind of upstream: a fresh --dev, and shared
// proxies over one Redis and over a cluster.
func Everywhere(t *testing.T, test func(t *testing.T, p *Proxy)) {
	upstreams := map[string]func(*testing.T) *Proxy{
		"dev":     func(t *testing.T) *Proxy { return StartProxy(t, "--dev") },
		"single":  func(*testing.T) *Proxy { return SharedOverRedis() },
		"cluster": func(*testing.T) *Proxy { return SharedOverCluster() },
	}
	for name, upstream := range upstreams {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, upstream(t))
		})
	}
}
