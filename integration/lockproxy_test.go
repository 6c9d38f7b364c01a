package integration

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the program built with the race detector, lean as users run it: for
// tests that look at memory. Each is built once.
var (
	raced = sync.OnceValues(func() (string, error) { return build("lockproxy-race", "-race") })
	plain = sync.OnceValues(func() (string, error) { return build("lockproxy") })
)

func binary(l life) string { l.Helper(); return built(l, raced) }

func lean(l life) string { l.Helper(); return built(l, plain) }

func built(l life, build func() (string, error)) string {
	l.Helper()
	path, err := build()
	if err != nil {
		l.Fatalf("%v", err)
	}
	return path
}

func build(name string, flags ...string) (string, error) {
	out := filepath.Join(packageLife.TempDir(), name)
	args := append([]string{"build", "-o", out}, flags...)
	if text, err := exec.Command("go", append(args, "lockproxy/cmd/lockproxy")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build lockproxy/cmd/lockproxy: %v\n%s", err, text)
	}
	return out, nil
}

// lockproxy is the program under test while it serves.
type lockproxy struct {
	*process
	addr  string // where clients connect
	admin string // URL of the admin listener, without a slash at its end
}

// startProxy starts the program with the race detector and waits until it
// serves. Unless args say otherwise it listens on free ports of loopback. When l
// ends it is drained, must exit 0, and its log must be clean.
func startProxy(l life, args ...string) *lockproxy {
	l.Helper()
	return startBinary(l, binary(l), args...)
}

func startBinary(l life, path string, args ...string) *lockproxy {
	l.Helper()
	for _, name := range []string{"--listen", "--admin"} {
		if !has(args, name) {
			args = append([]string{name, "127.0.0.1:0"}, args...)
		}
	}
	p := &lockproxy{process: startProcess(l, path, args...)}
	l.Cleanup(func() { p.drain(l) })
	p.admin = "http://" + p.logged(l, `msg="admin listening" addr=(\S+)`)
	p.addr = p.logged(l, `msg=listening addr=(\S+)`)
	return p
}

func has(args []string, name string) bool {
	for _, a := range args {
		if a == name || strings.HasPrefix(a, name+"=") {
			return true
		}
	}
	return false
}

// logged waits until the log has what pattern matches, and returns its group.
func (p *lockproxy) logged(l life, pattern string) string {
	l.Helper()
	re := regexp.MustCompile(pattern)
	end := time.Now().Add(2 * patience)
	for {
		if found := re.FindStringSubmatch(p.log.String()); found != nil {
			return found[len(found)-1]
		}
		if p.ended() || time.Now().After(end) {
			l.Fatalf("lockproxy never logged %s:\n%s", pattern, p.log.tail())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

var crash = regexp.MustCompile(`(?m)^(panic:|fatal error:|WARNING: DATA RACE|.*\bpanic\b.*)`)

// drain ends a proxy that still runs as SIGTERM does, and reads its log.
func (p *lockproxy) drain(l life) {
	l.Helper()
	if !p.ended() {
		p.signal(syscall.SIGCONT)
		p.signal(syscall.SIGTERM)
		if code := p.wait(patience); code != 0 {
			l.Errorf("lockproxy ended with %d after SIGTERM (-1: not within %v)\n%s", code, patience, p.log.tail())
		}
	}
	if found := crash.FindString(p.log.String()); found != "" {
		l.Errorf("lockproxy logged %q:\n%s", found, p.log)
	}
}

// get asks the admin listener.
func (p *lockproxy) get(path string) (status int, body string, err error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(p.admin + path)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, string(b), err
}

// metric is the sum of a family's samples in /metrics whose labels hold all of
// with; 0 if there is none.
func (p *lockproxy) metric(l life, family string, with ...string) float64 {
	l.Helper()
	status, body, err := p.get("/metrics")
	if err != nil || status != http.StatusOK {
		l.Fatalf("/metrics: %d %v", status, err)
	}
	sum := 0.0
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		name, labels, _ := strings.Cut(name, "{")
		if name != family || !containsAll(labels, with) {
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

func containsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// usage is what a proxy has open now.
type usage struct{ goroutines, descriptors float64 }

func (p *lockproxy) usage(l life) usage {
	l.Helper()
	return usage{p.metric(l, "go_goroutines"), p.metric(l, "process_open_fds")}
}

// returnsTo waits until the proxy uses no more than it did, within a few
// goroutines of its own.
func (p *lockproxy) returnsTo(l life, before usage) {
	l.Helper()
	var now usage
	end := time.Now().Add(patience)
	for now = p.usage(l); now.goroutines > before.goroutines+3 || now.descriptors > before.descriptors+3; now = p.usage(l) {
		if time.Now().After(end) {
			l.Fatalf("left behind: goroutines %v -> %v, file descriptors %v -> %v",
				before.goroutines, now.goroutines, before.descriptors, now.descriptors)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Topologies and proxies that tests share which do not disturb one another:
// they use keys of their own, flush nothing and stop nothing.
var (
	sharedRedis   = shared(func(l life) *server { return startRedis(l) })
	sharedCluster = shared(func(l life) *redisCluster { return startCluster(l, 3, 0) })

	sharedOverRedis   = shared(func(l life) *lockproxy { return startProxy(l, "--upstream", sharedRedis().addr) })
	sharedOverCluster = shared(func(l life) *lockproxy { return startProxy(l, "--upstream", sharedCluster().addrs()) })
)

// everywhere runs a test against each kind of upstream: a fresh --dev, and shared
// proxies over one Redis and over a cluster.
func everywhere(t *testing.T, test func(t *testing.T, p *lockproxy)) {
	upstreams := map[string]func(*testing.T) *lockproxy{
		"dev":     func(t *testing.T) *lockproxy { return startProxy(t, "--dev") },
		"single":  func(*testing.T) *lockproxy { return sharedOverRedis() },
		"cluster": func(*testing.T) *lockproxy { return sharedOverCluster() },
	}
	for name, upstream := range upstreams {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, upstream(t))
		})
	}
}
