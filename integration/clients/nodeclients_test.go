package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// TestNodeClients needs node, npm and its registry once, for ioredis and
// node-redis. Where these cannot be had the same is done by go-redis
// in both protocols (TestGoRedis), and this test says so.
func TestNodeClients(t *testing.T) {
	t.Parallel()
	env, ok := nodeModules(t)
	if !ok {
		return
	}
	rig.Everywhere(t, func(t *testing.T, p *rig.Proxy) {
		script(t, p, env, "node", "everyday.js")
		script(t, p, env, "node", "stateful.js", "single")
		script(t, p, env, "node", "notify.js")
	})
}

// nodeLibraries are what the scripts need, in the versions that are tested.
var nodeLibraries = []string{"ioredis@5.11.1", "redis@5.12.1", "bullmq@6.7.0", "redlock@4.2.0"}

// nodeModules is the environment in which node finds the libraries. Where node or the registry of npm
// cannot be had it says so, and ok is false; any other failure to install them is one of the test.
func nodeModules(t *testing.T) (env []string, ok bool) {
	t.Helper()
	modules, err := nodeInstalled()
	switch {
	case err == nil:
		return []string{"NODE_PATH=" + modules}, true
	case errors.Is(err, errNoNode):
		fmt.Fprintf(os.Stderr, "integration: %s: the clients and applications of node are not tried: %v\n",
			t.Name(), err)
	default:
		t.Error(err)
	}
	return nil, false
}

var errNoNode = errors.New("node, npm or its registry cannot be had")

// unreachable is what npm says of a registry that it does not reach.
var unreachable = regexp.MustCompile(`\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|` +
	`ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|ENOTCACHED|E503)\b`)

// nodeInstalled installs the libraries into the user's cache, once for all runs: a set of versions has a
// directory of its own there.
var nodeInstalled = sync.OnceValues(func() (modules string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%w: %v", errNoNode, err)
		}
	}
	dir := filepath.Join(cache, "lockproxy-test", "node-"+strings.Join(nodeLibraries, "-"))
	modules = filepath.Join(dir, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "installing-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	args := append([]string{"install", "--prefix", fresh, "--no-audit", "--no-fund", "--ignore-scripts",
		"--fetch-retries", "1"}, nodeLibraries...)
	out, err := exec.CommandContext(ctx, "npm", args...).CombinedOutput()
	switch {
	case ctx.Err() != nil || err != nil && unreachable.Match(out):
		return "", fmt.Errorf("%w: npm install: %v: %s", errNoNode, err, out)
	case err != nil:
		return "", fmt.Errorf("npm install: %v: %s", err, out)
	}
	if err := os.Rename(fresh, dir); err != nil { // another run may have been faster
		if _, gone := os.Stat(modules); gone != nil {
			return "", err
		}
	}
	return modules, nil
})
