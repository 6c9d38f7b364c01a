package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockproxy/cluster/discovery"
	"lockproxy/cmd/lockproxy/dev"
	"lockproxy/cmd/lockproxy/files"
	"lockproxy/cmd/lockproxy/lifecycle"
	"lockproxy/commands"
	"lockproxy/commands/routes"
	"lockproxy/proxy"
)

// scriptedPlane is a data plane that does what a test says.
type scriptedPlane struct {
	ready   error
	drained chan struct{} // Drain returns when it is closed
	begun   chan struct{} // closed when Drain begins; nil: nobody wants to know
}

func (s *scriptedPlane) Turns(context.Context) error { return nil }

func (s *scriptedPlane) Serve(ln net.Listener) error { return ln.Close() }
func (s *scriptedPlane) Admit(nc net.Conn, _ []byte) { nc.Close() }
func (s *scriptedPlane) Earlier(_, _ uint64)         {}

func (s *scriptedPlane) Ready() error       { return s.ready }
func (s *scriptedPlane) Stats() proxy.Stats { return proxy.Stats{Stats: commands.Stats{Clients: 7}} }

func (s *scriptedPlane) Drain(ctx context.Context) error {
	if s.begun != nil {
		close(s.begun)
	}
	select {
	case <-s.drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// safeBuffer is a log that can be read while it is written.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// FindSub waits until the log has what pattern matches, and returns its first group.
func (b *safeBuffer) find(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	eventually(t, func() string {
		if found = re.FindStringSubmatch(b.String()); found != nil {
			return ""
		}
		return fmt.Sprintf("the log never had %s:\n%s", pattern, b.String())
	})
	return found[len(found)-1]
}

// patience is how long tests wait for what comes: only a hung program is later.
const patience = 2 * time.Minute

// eventually waits until nothing is missing.
func eventually(t *testing.T, missing func() string) {
	t.Helper()
	for hung := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		what := missing()
		if what == "" {
			return
		}
		if time.Now().After(hung) {
			t.Fatal(what)
		}
	}
}

// running is a program under test.
type running struct {
	log     *safeBuffer
	signals chan os.Signal
	ended   chan error
	exits   chan int
}

func startProgram(t *testing.T, args string,
	connect func(ctx context.Context, upstream []string) (lifecycle.Plane, error)) *running {
	t.Helper()
	r := &running{new(safeBuffer), make(chan os.Signal, 2), make(chan error, 1), make(chan int, 1)}
	if !strings.Contains(args, "--listen ") {
		args += " --listen 127.0.0.1:0"
	}
	p := newProgram(configOf(t, args+" --listen-at-once no"), files.Certs{}, r.log)
	p.connect = func(ctx context.Context, _ *program, upstream []string) (lifecycle.Plane,
		error) {
		return connect(ctx, upstream)
	}
	p.exit = func(code int) { r.exits <- code }
	go func() { r.ended <- p.run(r.signals) }()
	return r
}

func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(patience):
		t.Fatalf("the program does not end:\n%s", r.log)
		return nil
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestProgramServesAndDrains(t *testing.T) {
	pl := &scriptedPlane{drained: make(chan struct{})}
	found := make(chan struct{})
	r := startProgram(t, "--upstream 127.0.0.1:1 --listen 127.0.0.1:0 --admin 127.0.0.1:0",
		func(_ context.Context, upstream []string) (lifecycle.Plane, error) {
			<-found
			if strings.Join(upstream, ",") != "127.0.0.1:1" {
				t.Errorf("upstream %v", upstream)
			}
			return pl, nil
		})
	admin := "http://" + r.log.find(t, `msg="admin listening" addr=(127\.0\.0\.1:\d+)\n`)
	if code, body := get(t, admin+"/readyz"); code != 503 || !strings.Contains(body, "starting") {
		t.Errorf("/readyz before the upstream is found: %d %s", code, body)
	}
	if code, _ := get(t, admin+"/healthz"); code != 200 {
		t.Errorf("/healthz before the upstream is found: %d", code)
	}
	close(found)
	r.log.find(t, `msg=listening addr=127\.0\.0\.1:\d+\n`)
	if code, body := get(t, admin+"/readyz"); code != 200 {
		t.Errorf("/readyz: %d %s", code, body)
	}
	r.signals <- syscall.SIGTERM
	r.log.find(t, "msg=draining")
	for { // the state changes right after the line is written
		if code, body := get(t, admin+"/readyz"); code == 503 && strings.Contains(body, "draining") {
			break
		}
	}
	if code, _ := get(t, admin+"/healthz"); code != 200 {
		t.Errorf("/healthz while draining: %d", code)
	}
	close(pl.drained)
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
	if _, err := http.Get(admin); err == nil {
		t.Error("admin still listens")
	}
	if len(r.exits) > 0 {
		t.Error("one signal was enough to end at once")
	}
}

func TestProgramDrainsNoLongerThanItsTimeout(t *testing.T) {
	r := startProgram(t, "--dev --admin off --drain-timeout 20ms",
		func(context.Context, []string) (lifecycle.Plane, error) {
			return &scriptedPlane{}, nil
		})
	r.log.find(t, "nothing survives")
	r.log.find(t, "msg=listening")
	r.signals <- syscall.SIGINT
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
	r.log.find(t, "drained in part")
}

func TestProgramEndsAtOnceOnASecondSignal(t *testing.T) {
	pl := &scriptedPlane{drained: make(chan struct{})}
	r := startProgram(t, "--dev --admin off",
		func(context.Context, []string) (lifecycle.Plane, error) { return pl, nil })
	r.log.find(t, "msg=listening")
	r.signals <- syscall.SIGTERM
	r.signals <- syscall.SIGTERM
	if code := <-r.exits; code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	close(pl.drained)
	r.wait(t)
}

// A proxy that is to end is not ready at once, and serves for drain-delay. A second signal ends the delay, a
// third one the process.
func TestProgramServesWhileItIsNotReady(t *testing.T) {
	pl := &scriptedPlane{drained: make(chan struct{}), begun: make(chan struct{})}
	r := startProgram(t, "--dev --admin 127.0.0.1:0 --drain-delay 1h",
		func(context.Context, []string) (lifecycle.Plane, error) { return pl, nil })
	admin := "http://" + r.log.find(t, `msg="admin listening" addr=(127\.0\.0\.1:\d+)\n`)
	r.log.find(t, "msg=listening")
	r.signals <- syscall.SIGTERM
	r.log.find(t, "draining begins later.* delay=1h")
	if code, body := get(t, admin+"/readyz"); code != 503 || !strings.Contains(body, "draining begins soon") {
		t.Errorf("/readyz during the delay: %d %s", code, body)
	}
	if _, body := get(t, admin+"/metrics"); !strings.Contains(body, "\nlockproxy_ready 0\n") {
		t.Error("lockproxy_ready is not 0 during the delay")
	}
	select {
	case <-pl.begun:
		t.Error("it drains during the delay")
	default:
	}
	r.signals <- syscall.SIGINT
	<-pl.begun
	if code, body := get(t, admin+"/readyz"); code != 503 || !strings.Contains(body, "draining: ") {
		t.Errorf("/readyz behind the delay: %d %s", code, body)
	}
	if len(r.exits) > 0 {
		t.Error("the second signal ended the process")
	}
	r.signals <- syscall.SIGTERM
	if code := <-r.exits; code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	close(pl.drained)
	r.wait(t)
}

// The delay ends by itself, and a proxy that never served has none.
func TestProgramDelayEnds(t *testing.T) {
	pl := &scriptedPlane{drained: make(chan struct{})}
	close(pl.drained)
	r := startProgram(t, "--dev --admin off --drain-delay 20ms",
		func(context.Context, []string) (lifecycle.Plane, error) { return pl, nil })
	r.log.find(t, "msg=listening")
	r.signals <- syscall.SIGTERM
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
	r = startProgram(t, "--upstream 127.0.0.1:1 --admin off --drain-delay 1h",
		func(ctx context.Context, _ []string) (lifecycle.Plane, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	r.signals <- syscall.SIGTERM
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
}

func TestProgramCanBeStoppedWhileItLooksForItsUpstream(t *testing.T) {
	r := startProgram(t, "--upstream 127.0.0.1:1 --admin off",
		func(ctx context.Context, _ []string) (lifecycle.Plane, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	r.signals <- syscall.SIGTERM
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
}

func TestProgramSaysWhyItCannotServe(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	serve := func(context.Context, []string) (lifecycle.Plane, error) {
		done := make(chan struct{})
		close(done)
		return &scriptedPlane{drained: done}, nil
	}
	for _, test := range []struct {
		args, want string
		connect    func(context.Context, []string) (lifecycle.Plane, error)
	}{
		{"--dev --admin " + busy.Addr().String(), "admin " + busy.Addr().String() + ": ", serve},
		{"--dev --admin off --listen " + busy.Addr().String(), "listen " + busy.Addr().String() + ": ",
			serve},
		{"--upstream 127.0.0.1:1 --admin off", "wrong password",
			func(context.Context, []string) (lifecycle.Plane, error) {
				return nil, errors.New("wrong " +
					"password")
			}},
	} {
		err := startProgram(t, test.args, test.connect).wait(t)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v", test.args, err)
		}
	}
}

// The Redis of --dev tells of every command that it has: no other would be served.
func TestDevCommands(t *testing.T) {
	d, err := dev.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	up, err := discovery.Find(t.Context(), discovery.Options{Addrs: []string{d.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	told, err := up.Command(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	table, err := routes.NewTable(told, nil)
	if err != nil {
		t.Fatal(err)
	}
	have := 0
	redis7, err := os.ReadFile("../../commands/testdata/command-7.0.15.resp")
	if err != nil {
		t.Fatal(err)
	}
	all, err := routes.NewTable(redis7, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all.Commands() {
		if !d.Server().IsRegisteredCommand(c.Name) {
			continue
		}
		if have++; table.Lookup([]byte(c.Name)) == nil {
			t.Errorf("%s is not told of", c.Name)
		}
	}
	for line := range strings.Lines(strings.TrimSpace(dev.Untold)) {
		name, _, _ := strings.Cut(line, " ")
		if !d.Server().IsRegisteredCommand(name) || table.Lookup([]byte(name)) == nil {
			t.Errorf("%s is told of, or is there, but not both", name)
		}
	}
	if have < 150 {
		t.Errorf("%d commands", have)
	}
}

// The Redis of --dev lets leases end with the clock.
func TestDevRedis(t *testing.T) {
	m, err := dev.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Set("k", "v"); err != nil {
		t.Fatal(err)
	}
	m.SetTTL("k", 5*time.Millisecond)
	eventually(t, func() string {
		if m.Exists("k") {
			return "the TTL does not run"
		}
		return ""
	})
}

func TestLogLevelAndFormat(t *testing.T) {
	var b bytes.Buffer
	c := configOf(t, "--dev --log-format json --log-level warn")
	log := newLogger(c, &b)
	log.Info("quiet")
	if err := c.SetAll([][2]string{{"log-level", "info"}}); err != nil {
		t.Fatal(err)
	}
	log.Info("loud")
	if got := b.String(); strings.Contains(got, "quiet") || !strings.Contains(got, `"msg":"loud"`) {
		t.Errorf("log: %s", got)
	}
}
