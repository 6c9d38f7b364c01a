package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// knocks are clients that connect, ask one question, and leave, again and again.
type knocks struct {
	over  chan struct{}
	work  sync.WaitGroup
	count atomic.Int64

	mu    sync.Mutex
	wrong []error
}

// knock begins to knock at addr.
func (k *knocks) knock(network, addr string) {
	k.work.Go(func() {
		for {
			select {
			case <-k.over:
				return
			case <-time.After(time.Millisecond):
			}
			if err := once(network, addr); err != nil {
				k.mu.Lock()
				k.wrong = append(k.wrong, err)
				k.mu.Unlock()
			}
			k.count.Add(1)
		}
	})
}

func once(network, addr string) error {
	nc, err := net.DialTimeout(network, addr, 2*rig.Patience)
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(2 * rig.Patience))
	if _, err := nc.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(nc).ReadString('\n')
	if err == nil && line != "+PONG\r\n" {
		err = fmt.Errorf("answer %q", line)
	}
	return err
}

// more waits until n more clients were there.
func (k *knocks) more(t *testing.T, n int64) {
	t.Helper()
	from := k.count.Load()
	for end := time.Now().Add(2 * rig.Patience); k.count.Load() < from+n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("too few clients were served")
		}
	}
}

// A new process takes the ports of the one before over, again and again, and nobody who connects meanwhile is
// refused, reset, or left without an answer, on TCP and on a unix socket.
func TestTakeover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unix := filepath.Join(dir, "clients")
	args := []string{"--upstream", rig.SharedRedis().Addr, "--takeover", filepath.Join(dir, "takeover"),
		"--listen", "127.0.0.1:0," + unix}
	// A client that stalls between connect and PING is served as long as the old process waits.
	p := rig.StartProxy(t, append(args, "--drain-delay", "10m")...)
	first, admin := p.Addr, p.Admin
	k := &knocks{over: make(chan struct{})}
	for range 3 {
		k.knock("tcp", p.Addr)
	}
	k.knock("unix", unix)
	k.more(t, 100)

	// One that asks for the ports and goes changes nothing.
	nc, err := net.Dial("unix", filepath.Join(dir, "takeover"))
	if err != nil {
		t.Fatal(err)
	}
	nc.Read(make([]byte, 1))
	nc.Close()
	p.Logged(t, `msg="(another process has not taken over): this one goes on"`)
	k.more(t, 100)

	// Nor does one that asks and stays silent: others take over meanwhile, and it is told.
	silent, err := net.Dial("unix", filepath.Join(dir, "takeover"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	const processes = 4
	for i := range processes {
		delay := "10m"
		if i == processes-1 {
			delay = "0s"
		}
		old := p
		p = rig.StartProxy(t, append(args, "--drain-delay", delay)...)
		if p.Addr != first || p.Admin != admin {
			t.Errorf("listens on %s and %s, not on %s and %s", p.Addr, p.Admin, first, admin)
		}
		old.Logged(t, `msg="(another process has taken over)"`)
		old.Logged(t, `msg="not ready any more: .*" why=(takeover)`)
		k.more(t, 100)
	}
	silent.SetDeadline(time.Now().Add(rig.Patience))
	if told, err := io.ReadAll(silent); !strings.HasSuffix(string(told), "late\n") {
		t.Errorf("the silent one is told %q, %v", told, err)
	}
	if status, _, err := p.Get("/readyz"); status != 200 {
		t.Errorf("/readyz of the last process: %d %v", status, err)
	}
	close(k.over)
	k.work.Wait()
	for _, err := range k.wrong {
		t.Error(err)
	}
	t.Logf("%d clients, %d in vain", k.count.Load(), len(k.wrong))
}

// A process that was relieved ends by itself.
func TestTakeoverEnds(t *testing.T) {
	t.Parallel()
	args := []string{"--upstream", rig.SharedRedis().Addr,
		"--takeover", filepath.Join(t.TempDir(), "takeover")}
	old := rig.StartProxy(t, args...)
	c := rig.Connect(t, old.Addr)
	c.Must(t, "PING")
	rig.StartProxy(t, args...)
	if code := old.Wait(2 * rig.Patience); code != 0 {
		t.Errorf("exit code %d (-1: it has not ended)\n%s", code, old.Log.Tail())
	}
}
