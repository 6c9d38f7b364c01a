package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"lockproxy/integration/page"
	"lockproxy/integration/rig"
	"lockproxy/internal/slot"
)

const (
	nodes = 3 // masters of the cluster, and plain servers
	// spareFiles is what a program has open beside the sockets of its clients.
	spareFiles = 500
	// mostClients is more than ever are connected.
	mostClients = 12000
)

// yard is everything that runs during the benchmark: the servers, the proxies. They end with its life, and so
// does it when one of them fails.
type yard struct {
	rig.Life
	o         options
	masters   []*rig.Server // of the cluster, by slots
	plain     []*rig.Server // that know nothing of each other
	started   []*rig.Process
	direct    way
	lockproxy []way // two over the same cluster
	// the yardsticks; without doors where they are not installed
	haproxy, twemproxy way
	files              int             // that each program may have open
	quit               <-chan struct{} // closed when somebody interrupts it
}

// way is one way to a Redis, or to its locks: those who are compared are ways.
type way struct {
	name    string
	base    string         // the name of the one whom it is compared with; "": direct
	doors   []string       // where clients connect, in turn
	cluster bool           // each door is a master of a cluster, and clients must know which
	proxies []*rig.Process // whose CPU counts; nil: there is none
	servers []*rig.Server  // whose CPU and commands count
	admin   *rig.Proxy     // the lockproxy
	// locker is the i-th who wants a lock; queued says how many wait, nil: nobody can tell
	locker func(ctx context.Context, key string, i int) (locker, error)
	queued func(key string) (int, error)
}

// open starts everything.
func open(l rig.Life, o options) *yard {
	y := &yard{Life: l, o: o}
	y.files = y.raiseOpenFiles(2*mostClients + spareFiles) // a connection to Redis for each client
	y.plain = y.redis(nodes)
	y.masters = rig.StartCluster(y, nodes, 0, "--maxclients", fmt.Sprint(mostClients)).Nodes
	y.direct = way{name: "direct", doors: addrs(y.masters), cluster: true, servers: y.masters}
	for _, name := range []string{oneProxy, twoProxies} {
		w := y.startLockproxy(name, y.masters)
		y.lockproxy = append(y.lockproxy, w)
		y.progress("%s serves at %s, and tells of itself at %s", name, w.doors[0], w.admin.Admin)
	}
	y.twemproxy = y.yardstick("twemproxy")
	y.haproxy = y.yardstick("haproxy")
	y.fillKeyed()
	return y
}

// check ends everything if something failed.
func (y *yard) check(err error) {
	y.Helper()
	if err != nil {
		y.Fatalf("%v", err)
	}
}

// redis starts servers that keep nothing on disk.
func (y *yard) redis(n int) (all []*rig.Server) {
	for range n {
		all = append(all, rig.StartRedis(y, "--maxclients", fmt.Sprint(mostClients)))
		y.started = append(y.started, all[len(all)-1].Process)
	}
	return all
}

func addrs(servers []*rig.Server) (all []string) {
	for _, s := range servers {
		all = append(all, s.Addr)
	}
	return all
}

// startLockproxy starts a lockproxy before servers.
func (y *yard) startLockproxy(name string, upstream []*rig.Server, settings ...string) way {
	args := append([]string{"--upstream", rig.Addrs(upstream), "--maxclients",
		fmt.Sprint(mostClients), "--admin-pprof", "yes"}, settings...)
	program := y.o.lockproxy
	if program == "" {
		program = rig.LeanBinary(y)
	}
	p := rig.StartBinary(y, program, args...)
	y.started = append(y.started, p.Process)
	return way{name: name, doors: []string{p.Addr}, proxies: []*rig.Process{p.Process}, servers: upstream,
		admin: p}
}

// running is the CPU time of all that was started and still runs.
func (y *yard) running() (all time.Duration) {
	for _, p := range y.started {
		if !p.Ended() {
			all += p.CPU(y)
		}
	}
	return all
}

// contenders are all ways for ordinary commands: none but Redis, lockproxy, the yardsticks.
func (y *yard) contenders() []way {
	return append([]way{y.direct, y.lockproxy[0]}, y.yardsticks()...)
}

// yardsticks are other proxies, that first which does more of what lockproxy does.
func (y *yard) yardsticks() []way {
	return slices.DeleteFunc([]way{y.twemproxy, y.haproxy},
		func(w way) bool { return w.doors == nil })
}

// yardsticks are the configurations of the other proxies.
//
//go:embed yardsticks
var yardsticks embed.FS

// yardstick starts one of the other proxies, if it is installed.
func (y *yard) yardstick(name string) (w way) {
	program := name
	if name == "twemproxy" {
		program = "nutcracker"
	}
	if _, err := exec.LookPath(program); err != nil {
		y.progress("%s is not installed and not measured; `make bench` installs what the system has as "+
			"packages", program)
		return w
	}
	addr := fmt.Sprintf("127.0.0.1:%d", rig.FreePort(y))
	// haproxy needs two files for each client, and does not start if it may not have them.
	settings := map[string]string{"ADDR": addr, "CLIENTS": fmt.Sprint((y.files - spareFiles) / 2)}
	for i := range nodes {
		settings[fmt.Sprint("REDIS", i+1)] = y.plain[i].Addr
		settings[fmt.Sprint("MASTER", i+1)] = y.masters[i].Addr
	}
	config, err := yardsticks.ReadFile("yardsticks/" + program + ".conf")
	y.check(err)
	path := rig.WriteFile(y, program+".conf",
		os.Expand(string(config), func(s string) string { return settings[s] }))
	w = way{name: name, doors: []string{addr}}
	args := []string{path}
	switch program {
	case "nutcracker":
		args = []string{"-s", fmt.Sprint(rig.FreePort(y)), "-a", "127.0.0.1", "-c", path}
	case "haproxy":
		args = []string{"-db", "-f", path}
	}
	p := rig.StartProcess(y, program, args...)
	y.started, w.proxies = append(y.started, p), []*rig.Process{p}
	p.Await(y, "listening at "+addr, func() bool { return rig.Listens(addr) })
	return w
}

// holdCPU holds the proxy's CPU against twemproxy's. The limits are those of a proxy that speaks the protocol
// of a cluster, as predixy does, and needs as much CPU as that one.
func (y *yard) holdCPU(rep *report, r results, what, told string, limit float64) {
	rep.hold(page.AtMost(limit, "%.2f", told+", against twemproxy",
		r.versus(what, oneProxy, y.twemproxy.name, cpu)))
}

// holds says whether a way may have that many clients, for the files that it may open. haproxy has
// a connection to Redis for each.
func (y *yard) holds(w way, clients int) bool {
	if w.name == y.haproxy.name {
		clients *= 2
	}
	return clients+spareFiles <= y.files
}

// raiseOpenFiles raises the limit of open files (ulimit -n) of this program, and of those that it starts, as
// far as it may, and is what it has become. Above the hard limit only the superuser may go.
func (y *yard) raiseOpenFiles(wanted uint64) int {
	var l syscall.Rlimit
	y.check(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l))
	raised := syscall.Rlimit{Cur: wanted, Max: max(wanted, l.Max)}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) != nil {
		wanted = min(wanted, l.Max)
		y.check(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: wanted, Max: l.Max}))
	}
	return int(wanted)
}

// nodeOf is the number of the node of a cluster that has a key: node i begins with slot rig.Slots*i/nodes.
func nodeOf(key string) int { return (slot.Of([]byte(key))*nodes + nodes - 1) / rig.Slots }
