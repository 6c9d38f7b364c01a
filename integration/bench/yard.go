package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// yard is everything that runs during the benchmark: the servers, the proxies.
type yard struct {
	dir        string
	processes  []*process // in the order of their start
	masters    []string   // addresses of the cluster's masters, by slots
	masterPIDs []int      // theirs
	plain      []string   // addresses of three Redis that know nothing of each other
	direct     contender
	binary     string         // of lockproxy; "": it is not measured
	lockproxy  []contender    // two over the same cluster, or none
	admin      string         // where the first of them gives profiles, while they are wanted
	quorums    map[int]quorum // by the number of their masters; once RedLock is measured
	haproxy    contender      // the yardsticks; without an address where they are not installed
	twemproxy  contender
	predixy    contender
	files      int // that each program may have open
}

// contender is one way to a Redis.
type contender struct {
	name    string
	addr    string
	cluster bool // addr is a node of a cluster and clients must know that
	pid     int  // whose CPU counts; 0: there is no proxy
}

// open starts everything. What it started is ended by close, also after an error.
func (y *yard) open(ctx context.Context, o options) (err error) {
	if y.dir, err = os.MkdirTemp("", "lockproxy-bench-"); err != nil {
		return err
	}
	if y.files, err = raiseOpenFiles(wantedFiles); err != nil {
		return err
	}
	if err := y.openRedis(ctx); err != nil {
		return err
	}
	y.direct = contender{name: "direct", addr: y.masters[0], cluster: true}
	if y.twemproxy, err = y.startTwemproxy(ctx); err != nil {
		return err
	}
	if y.haproxy, err = y.startHaproxy(ctx); err != nil {
		return err
	}
	if y.predixy, err = y.startPredixy(ctx); err != nil {
		return err
	}
	return y.openLockproxy(ctx, o)
}

// contenders are all ways for ordinary commands: none but Redis, lockproxy, the yardsticks.
func (y *yard) contenders() []contender {
	all := append([]contender{y.direct}, y.lockproxy[:min(1, len(y.lockproxy))]...)
	return append(all, y.yardsticks()...)
}

// yardsticks are other proxies, that first which does most of what lockproxy does: predixy, which few
// systems have as a package, speaks the protocol of a cluster.
func (y *yard) yardsticks() []contender {
	return slices.DeleteFunc([]contender{y.predixy, y.twemproxy, y.haproxy},
		func(c contender) bool { return c.addr == "" })
}

// close ends what was started, the last one first.
func (y *yard) close() {
	y.end(0)
	if y.dir != "" {
		os.RemoveAll(y.dir)
	}
}

// end ends all but the first n that were started.
func (y *yard) end(n int) {
	for i := len(y.processes) - 1; i >= n; i-- {
		y.processes[i].end()
	}
	y.processes = y.processes[:n]
}

// serve starts a server and waits until it listens.
func (y *yard) serve(ctx context.Context, addr, name string, args ...string) (*process, error) {
	p, err := start(name, args...)
	if err != nil {
		return nil, err
	}
	y.processes = append(y.processes, p)
	return p, p.until(ctx, "listening at "+addr, func() bool { return accepts(addr) })
}

// Each of these starts a yardstick, if it is installed.

const twemproxyConfig = `bench:
  listen: %s
  redis: true
  hash: crc16
  distribution: modula
  preconnect: true
  servers:
   - %s:1
   - %s:1
   - %s:1
`

func (y *yard) startTwemproxy(ctx context.Context) (c contender, err error) {
	if _, err := exec.LookPath("nutcracker"); err != nil {
		return c, nil
	}
	port, err := freePort()
	if err != nil {
		return c, err
	}
	stats, err := freePort()
	if err != nil {
		return c, err
	}
	c = contender{name: "twemproxy", addr: fmt.Sprintf("127.0.0.1:%d", port)}
	path, err := y.write("nutcracker.yml",
		fmt.Sprintf(twemproxyConfig, c.addr, y.plain[0], y.plain[1], y.plain[2]))
	if err != nil {
		return c, err
	}
	p, err := y.serve(ctx, c.addr, "nutcracker", "-c", path, "-s", fmt.Sprint(stats), "-a", "127.0.0.1")
	if err != nil {
		return c, err
	}
	c.pid = p.pid()
	return c, nil
}

const haproxyConfig = `global
  nbthread 1
  maxconn %d
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen bench
  bind %s
  server redis %s
`

func (y *yard) startHaproxy(ctx context.Context) (c contender, err error) {
	if _, err := exec.LookPath("haproxy"); err != nil {
		return c, nil
	}
	port, err := freePort()
	if err != nil {
		return c, err
	}
	c = contender{name: "haproxy", addr: fmt.Sprintf("127.0.0.1:%d", port)}
	// It needs two files for each client, and does not start if it may not have them.
	path, err := y.write("haproxy.cfg",
		fmt.Sprintf(haproxyConfig, (y.files-spareFiles)/2, c.addr, y.plain[0]))
	if err != nil {
		return c, err
	}
	p, err := y.serve(ctx, c.addr, "haproxy", "-db", "-f", path)
	if err != nil {
		return c, err
	}
	c.pid = p.pid()
	return c, nil
}

const predixyConfig = `Name bench
Bind %s
WorkerThreads 1
ClientTimeout 0
ClusterServerPool {
    MasterReadPriority 50
    Servers {
        + %s
    }
}
`

func (y *yard) startPredixy(ctx context.Context) (c contender, err error) {
	if _, err := exec.LookPath("predixy"); err != nil {
		return c, nil
	}
	port, err := freePort()
	if err != nil {
		return c, err
	}
	c = contender{name: "predixy", addr: fmt.Sprintf("127.0.0.1:%d", port)}
	path, err := y.write("predixy.conf",
		fmt.Sprintf(predixyConfig, c.addr, strings.Join(y.masters, "\n        + ")))
	if err != nil {
		return c, err
	}
	p, err := y.serve(ctx, c.addr, "predixy", path)
	if err != nil {
		return c, err
	}
	c.pid = p.pid()
	return c, nil
}

// openLockproxy builds lockproxy where no binary was given and starts two.
func (y *yard) openLockproxy(ctx context.Context, o options) error {
	switch o.lockproxy {
	case "none":
		return nil
	case "":
		y.binary = filepath.Join(y.dir, "lockproxy")
		out, err := exec.CommandContext(ctx, "go", "build", "-o", y.binary,
			"lockproxy/cmd/lockproxy").CombinedOutput()
		if err != nil {
			return fmt.Errorf("go build ./cmd/lockproxy: %w\n%s", err, out)
		}
	default:
		y.binary = o.lockproxy
	}
	for i := range 2 {
		c, admin, err := y.startLockproxy(ctx, y.masters, i == 0 && o.cpuprofile != "")
		if err != nil {
			return err
		}
		y.lockproxy = append(y.lockproxy, c)
		if admin != "" {
			y.admin = admin
		}
	}
	return nil
}

// startLockproxy starts a lockproxy. One that is watched has an admin address, which
// gives metrics and profiles.
func (y *yard) startLockproxy(ctx context.Context, upstream []string, watched bool,
	settings ...string) (c contender, admin string, err error) {
	args := append([]string{"--upstream", strings.Join(upstream, ","), "--listen", "127.0.0.1:0",
		"--maxclients", strconv.Itoa(mostClients)}, settings...)
	if watched {
		args = append(args, "--admin", "127.0.0.1:0", "--admin-pprof", "yes")
	} else {
		args = append(args, "--admin", "off")
	}
	p, err := start(y.binary, args...)
	if err != nil {
		return c, "", err
	}
	y.processes = append(y.processes, p)
	c = contender{name: "lockproxy", pid: p.pid()}
	err = p.until(ctx, "listening", func() bool {
		c.addr = p.log.listening("listening")
		return c.addr != "" && accepts(c.addr)
	})
	if err == nil && watched {
		err = p.until(ctx, "telling its admin address", func() bool {
			admin = p.log.listening(`"admin listening"`)
			return admin != ""
		})
	}
	return c, admin, err
}

// write writes a configuration file.
func (y *yard) write(name, text string) (path string, err error) {
	path = filepath.Join(y.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}
