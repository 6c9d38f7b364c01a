//go:build !quick

package compat

import (
	"flag"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// What a run of Redis's suite is about can be changed: make compat COMPATFLAGS="-compat-targets single".
var (
	compatTargets = flag.String("compat-targets", "",
		"targets of TestCompat, with commas between them; empty: all")
	compatFiles = flag.String("compat-files", "",
		"files of Redis's suite, with commas between them; empty: with -long all, else a dose")
	compatTags = flag.String("compat-tags", suiteTags, "--tags of Redis's suite")
	compatJobs = flag.Int("compat-jobs", 0,
		"files that run at a time; 0: as many as there are processors, with -long half of them")
	compatLogs = flag.String("compat-logs", "", "directory where the suite's logs are kept; empty: nowhere")
)

// compatTarget is an upstream that the proxy stands in front of while the suite runs.
type compatTarget struct {
	name     string
	upstream func(l rig.Life) string // starts one; the address for --upstream
	bare     string                  // the target whose upstream is what the proxy is compared with
	mode     []string                // of the suite
	proxy    []string                // flags
	dose     []string                // files of the short run
}

var targetsOfCompat = []compatTarget{{
	name:     "single",
	upstream: func(l rig.Life) string { return rig.StartRedis(l, rig.OpenRedis...).Addr },
	bare:     "single",
	proxy:    []string{"--refused-commands", ""},
	dose: []string{"unit/protocol", "unit/introspection", "unit/pubsub", "unit/tracking", "unit/multi",
		"unit/info-command"},
}, {
	name:     "onenode",
	upstream: func(l rig.Life) string { return openCluster(l, 1) },
	bare:     "onenode",
	mode:     []string{"--cluster-mode"},
	proxy:    []string{"--refused-commands", "", "--cluster-mode", "yes"},
	dose:     []string{"unit/introspection", "unit/pubsub", "unit/multi"},
}, {
	name:     "cluster",
	upstream: func(l rig.Life) string { return openCluster(l, 3) },
	bare:     "onenode",
	mode:     []string{"--cluster-mode"},
	proxy:    []string{"--refused-commands", "", "--cluster-mode", "yes"},
	dose:     []string{"unit/introspection", "unit/pubsub", "unit/multi", "unit/keyspace", "unit/functions"},
}}

// openCluster starts a cluster with the databases that the suite of Valkey uses in clusters since 9.
func openCluster(l rig.Life, masters int) string {
	args := slices.Clone(rig.OpenRedis)
	if product, version, _ := installed(); product == "valkey" && !strings.HasPrefix(version, "8.") {
		args = append(args, "--cluster-databases", "16")
	}
	return rig.StartCluster(l, masters, 0, args...).Addrs()
}

// TestCompat runs Redis's own test suite straight against a server and through the
// proxy: what passes there passes here.
func TestCompat(t *testing.T) {
	suite, err := findSuite()
	if err != nil {
		t.Fatal(err)
	}
	exceptions, err := listed(suite.server())
	if err != nil {
		t.Fatal(err)
	}
	all, err := suite.files()
	if err != nil {
		t.Fatal(err)
	}
	rig.Binary(t) // is built now, outside of what is timed
	c := newCompatRun(suite, exceptions)
	t.Run("on", func(t *testing.T) {
		for _, target := range targetsOfCompat {
			if *compatTargets != "" && !slices.Contains(strings.Split(*compatTargets, ","), target.name) {
				continue
			}
			for _, file := range filesOf(target, all) {
				t.Run(target.name+"/"+file, func(t *testing.T) {
					t.Parallel()
					c.jobs <- true
					defer func() { <-c.jobs }()
					c.file(t, target, file)
				})
			}
		}
	})
	left, stale := c.table.foot(exceptions)
	if len(left) > 0 {
		t.Errorf("%d tests of Redis's suite fail through the proxy alone: see the table above", len(left))
	}
	for _, key := range stale {
		t.Errorf("an exception that is none any more: %+v", key)
	}
}

func filesOf(target compatTarget, all []string) []string {
	if *compatFiles != "" {
		return strings.Split(*compatFiles, ",")
	}
	return rig.Dose(target.dose, all)
}

// compatRun is one run of the suite on several targets.
type compatRun struct {
	suite      *suite
	exceptions exceptions
	table      *table
	jobs       chan bool // has room for as many files as run at a time

	mu   sync.Mutex
	bare map[string]*bareRecord // by the target's name and the file's
}

// bareRecord is a run without a proxy, which several targets may want.
type bareRecord struct {
	sync.Once
	record
}

func newCompatRun(suite *suite, exceptions exceptions) *compatRun {
	jobs := *compatJobs
	if jobs == 0 {
		jobs = rig.Dose(runtime.NumCPU(), max(1, runtime.NumCPU()/2))
	}
	return &compatRun{suite: suite, exceptions: exceptions, table: newTable(os.Stdout),
		jobs: make(chan bool, jobs), bare: map[string]*bareRecord{}}
}

// file runs one file on one target. With -long, what fails through the proxy alone is run once more,
// unless it is much: a test may have been too slow for its own clock.
func (c *compatRun) file(t *testing.T, target compatTarget, file string) {
	start := time.Now()
	bare := c.withoutProxy(t, target.bare, file)
	if bare.tests() == 0 { // all of it is for servers that the suite starts itself
		c.table.row(row{target: target.name, file: file, bare: bare, through: bare})
		return
	}
	runs := []record{c.throughProxy(t, target, file)}
	differ, unsteady := compare(target.name, file, bare, runs...)
	if left, _ := c.exceptions.left(differ, nil); *rig.Long && len(left) > 0 && len(left) <= 5 {
		runs = append(runs, c.throughProxy(t, target, file))
		differ, unsteady = compare(target.name, file, bare, runs...)
	}
	c.table.row(row{target: target.name, file: file, bare: bare, through: runs[len(runs)-1],
		differ: differ, unsteady: unsteady, took: time.Since(start)})
}

func (c *compatRun) withoutProxy(t *testing.T, name, file string) record {
	c.mu.Lock()
	b := c.bare[name+" "+file]
	if b == nil {
		b = &bareRecord{}
		c.bare[name+" "+file] = b
	}
	c.mu.Unlock()
	b.Do(func() {
		i := slices.IndexFunc(targetsOfCompat, func(target compatTarget) bool { return target.name == name })
		b.record = c.play(t, "bare "+name, nil, targetsOfCompat[i].mode, file, targetsOfCompat[i].upstream)
	})
	return b.record
}

func (c *compatRun) throughProxy(t *testing.T, target compatTarget, file string) record {
	return c.play(t, target.name, c.exceptions.notRun(target.name, file), target.mode, file,
		func(l rig.Life) string {
			return rig.StartProxy(l,
				append([]string{"--upstream", target.upstream(l)}, target.proxy...)...).Addr
		})
}

// play runs a file, each try against what start starts for it.
func (c *compatRun) play(t *testing.T, label string, stall, mode []string, file string,
	start func(l rig.Life) string) (r record) {
	return tries(8, stall, func(without []string) (r record) {
		t.Run(label, func(t *testing.T) {
			host, port, err := net.SplitHostPort(start(t))
			if err != nil {
				t.Fatal(err)
			}
			n, _ := strconv.Atoi(port)
			cmd, err := c.suite.command(t.TempDir(), playing{file: file, host: host, port: n, mode: mode,
				suiteTags: *compatTags, without: without, ports: suitePorts(), stall: 180})
			if err != nil {
				t.Fatal(err)
			}
			log := runSuite(t, cmd)
			keepLog(t, label, file, log)
			r = parse(log)
		})
		return r
	})
}

// suitePorts are a few ports that no server of a test has.
func suitePorts() int { return 30300 + rand.IntN(2400) }

// runSuite waits for the suite, which watches over its own progress, and for no
// longer than a file takes on the slowest machine.
func runSuite(t *testing.T, cmd *exec.Cmd) (log string) {
	t.Helper()
	p := rig.StartCommand(t, cmd)
	select {
	case <-p.Done:
	case <-time.After(15 * time.Minute):
		p.Kill()
	}
	return p.Log.String()
}

func keepLog(t *testing.T, label, file, log string) {
	if *compatLogs == "" {
		return
	}
	dir := filepath.Join(*compatLogs, strings.ReplaceAll(label, " ", "-"))
	name := filepath.Join(dir, strings.ReplaceAll(file, "/", "_")+time.Now().Format(".150405")+".log")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(log), 0o644); err != nil {
		t.Fatal(err)
	}
}
