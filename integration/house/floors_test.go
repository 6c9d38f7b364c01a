package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// floors are the packages, each with those below it that it may import.
var floors = map[string]string{
	"cmd/lockproxy": "cmd/lockproxy/adminpage " +
		"proxy proxy/login proxy/door commands commands/routes cluster cluster/discovery cluster/master " +
		"cmd/lockproxy/checkup redlock/scripts internal cmd/lockproxy/tool cmd/lockproxy/tool/client " +
		"cmd/lockproxy/tool/terminal cmd/lockproxy/tool/bench cmd/lockproxy/tool/lock " +
		"cmd/lockproxy/tool/locks cmd/lockproxy/settings cmd/lockproxy/files cmd/lockproxy/auditlog " +
		"cmd/lockproxy/limits cmd/lockproxy/dev cmd/lockproxy/admin cmd/lockproxy/lifecycle " +
		"cmd/lockproxy/tool/probe",
	"cmd/lockproxy/lifecycle": "cmd/lockproxy/adminpage cmd/lockproxy/settings proxy proxy/door",
	"cmd/lockproxy/settings": "cmd/lockproxy/kind cmd/lockproxy/tool proxy proxy/memory commands cluster " +
		"cluster/discovery cluster/master internal",
	"cmd/lockproxy/admin": "cmd/lockproxy/adminpage cmd/lockproxy/files cmd/lockproxy/settings proxy " +
		"proxy/login proxy/stats commands/lock cluster cluster/master cluster/pipe redlock/locks internal",
	"cmd/lockproxy/files":    "cmd/lockproxy/settings cluster",
	"cmd/lockproxy/auditlog": "internal",
	"cmd/lockproxy/limits":   "cmd/lockproxy/settings",
	"cmd/lockproxy/dev": "cmd/lockproxy/admin cmd/lockproxy/settings cmd/lockproxy/tool/client " +
		"cmd/lockproxy/tool/terminal internal",

	// Subcommands speak to a proxy as its clients do, so they import nothing of it but framing.
	"cmd/lockproxy/kind":        "",
	"cmd/lockproxy/tool":        "cmd/lockproxy/kind",
	"cmd/lockproxy/tool/client": "cmd/lockproxy/kind cmd/lockproxy/tool internal",
	"cmd/lockproxy/tool/lock": "cmd/lockproxy/kind cmd/lockproxy/tool cmd/lockproxy/tool/client " +
		"cmd/lockproxy/tool/terminal",
	"cmd/lockproxy/tool/terminal": "cmd/lockproxy/tool",
	"cmd/lockproxy/tool/bench": "cmd/lockproxy/kind cmd/lockproxy/tool cmd/lockproxy/tool/client " +
		"cmd/lockproxy/tool/terminal",
	// Probes read the settings of the proxy to know where it is.
	"cmd/lockproxy/tool/probe": "cmd/lockproxy/kind cmd/lockproxy/tool cmd/lockproxy/tool/client " +
		"cmd/lockproxy/settings",
	"cmd/lockproxy/tool/locks": "cmd/lockproxy/kind cmd/lockproxy/tool cmd/lockproxy/tool/client " +
		"cmd/lockproxy/tool/terminal",
	// lockproxy check looks at nodes as the proxy does, which need not run.
	"cmd/lockproxy/checkup": "cmd/lockproxy/settings cmd/lockproxy/tool/terminal proxy/needs cluster " +
		"cluster/discovery redlock/peers internal",
	"cmd/lockproxy/adminpage": "cmd/lockproxy/settings cmd/lockproxy/tool/terminal proxy proxy/stats " +
		"cluster commands/lock redlock redlock/locks redlock/totals internal",

	// A feature of the proxy each stands on client, and on few others. The proxy has them all.
	"proxy": "proxy/client proxy/scatter proxy/tracking proxy/blocking proxy/pubsub proxy/transaction " +
		"proxy/login proxy/watch proxy/needs proxy/stats proxy/masters proxy/table " +
		"proxy/memory proxy/clients proxy/door proxy/large proxy/lockorder proxy/nodes " +
		"proxy/execution " +
		"commands commands/cut commands/merge commands/routes commands/lock " +
		"commands/holds cluster cluster/master cluster/pipe cluster/pipe/owned cluster/pubsub " +
		"cluster/retry " +
		"redlock redlock/compat redlock/index redlock/locks redlock/peers redlock/quorum redlock/scripts " +
		"redlock/totals redlock/who internal",
	"proxy/login":  "proxy/client commands cluster internal",
	"proxy/memory": "internal",
	"proxy/large": "proxy/client proxy/scatter commands commands/cut cluster/pipe/owned " +
		"internal",
	"proxy/lockorder": "",
	"proxy/execution": "proxy/client proxy/large proxy/login proxy/pubsub proxy/scatter proxy/tracking " +
		"proxy/transaction commands cluster/pipe internal",
	"proxy/nodes":   "commands cluster cluster/pipe internal",
	"proxy/door":    "commands cluster cluster/master internal",
	"proxy/clients": "proxy/client commands commands/monitorline cluster/pipe internal",
	"proxy/stats":   "proxy/client commands",
	"proxy/masters": "proxy/needs cluster internal",
	"proxy/table":   "commands commands/routes cluster",
	"proxy/client":  "commands cluster cluster/pipe cluster/pipe/owned redlock internal",
	"proxy/watch":   "proxy/client commands internal",
	"proxy/needs":   "cluster redlock/scripts internal",
	"proxy/scatter": "proxy/client commands commands/cut cluster cluster/pipe cluster/pipe/owned " +
		"cluster/retry internal",
	"proxy/tracking": "proxy/client commands cluster cluster/pipe cluster/pipe/owned internal",
	"proxy/blocking": "proxy/client proxy/tracking commands cluster cluster/pipe cluster/pipe/owned " +
		"cluster/retry internal",
	"proxy/pubsub": "proxy/client proxy/tracking commands cluster cluster/pipe cluster/pubsub internal",
	"proxy/transaction": "proxy/client proxy/tracking commands cluster cluster/pipe cluster/pipe/owned " +
		"cluster/retry internal",

	// Packages of commands stand beside each other on commands, and routes has their rules.
	"commands/routes": "commands commands/merge commands/connection commands/server " +
		"commands/clusterview commands/scan commands/script commands/pubsub",
	"commands/connection":  "commands commands/merge cluster/pipe cluster/pubsub internal",
	"commands/server":      "commands commands/merge cluster/pipe redlock/locks internal",
	"commands/clusterview": "commands internal",
	"commands/scan":        "commands commands/cut commands/merge cluster cluster/pipe internal",
	"commands/script":      "commands commands/merge cluster/pipe internal",
	"commands/pubsub":      "commands commands/merge cluster cluster/pubsub internal",
	"commands/lock": "commands commands/holds cluster/master cluster/pipe " +
		"redlock redlock/index redlock/keepalive redlock/locks redlock/peers redlock/totals " +
		"redlock/who internal",
	"commands": "commands/cut commands/holds commands/merge cluster cluster/pipe cluster/pubsub " +
		"redlock redlock/locks internal",
	"commands/holds": "redlock redlock/keepalive redlock/locks internal",
	"commands/merge": "internal",
	"commands/cut":   "commands/merge internal",
	// What MONITOR shows is for the clients that watch.
	"commands/monitorline": "commands internal",

	// What the upstream is stands at the bottom of cluster; finding it, sending to it and listening at it
	// know nothing of each other.
	"cluster":           "internal",
	"cluster/retry":     "internal",
	"cluster/discovery": "cluster internal",
	"cluster/pipe": "cluster cluster/pipe/owned cluster/pipe/queue cluster/pipe/script " +
		"cluster/pipe/signs cluster/retry internal",
	"cluster/pipe/queue":  "internal",
	"cluster/pipe/script": "cluster/retry internal",
	"cluster/pipe/signs":  "cluster",
	"cluster/pipe/owned":  "cluster internal",
	"cluster/pubsub":      "cluster cluster/retry internal",
	"cluster/master":      "cluster cluster/pipe cluster/pipe/queue cluster/pubsub internal",
	// These are for tests of the packages above alone.
	"cluster/internal/servers":  "internal integration/rig",
	"cluster/internal/upstream": "cluster/discovery cluster/internal/servers",

	// What is asked of locks stands at the bottom of redlock, and what chooses the engine on top. The engines
	// know nothing of each other, nor of what is kept alive.
	"redlock":           "internal",
	"redlock/scripts":   "redlock internal",
	"redlock/wait":      "redlock internal",
	"redlock/keepalive": "redlock internal",
	"redlock/index":     "redlock internal",
	"redlock/peers":     "internal",
	"redlock/who":       "redlock redlock/index redlock/peers internal",
	"redlock/totals":    "redlock/locks redlock/peers",
	"redlock/single":    "redlock redlock/index redlock/scripts redlock/wait internal",
	"redlock/quorum":    "redlock redlock/scripts redlock/wait internal",
	"redlock/compat":    "redlock redlock/scripts redlock/wait internal",
	"redlock/locks": "redlock redlock/compat redlock/index redlock/keepalive redlock/quorum redlock/single " +
		"internal",
	// rig and proxies are for tests of these packages alone.
	"redlock/internal/rig":     "redlock redlock/scripts internal",
	"redlock/internal/proxies": "redlock redlock/internal/rig redlock/locks internal",

	"internal": "internal",
}

// controls are the packages that ask nodes by go-redis: that which finds them, and what its tests stand on.
var controls = map[string]bool{"cluster/discovery": true, "cluster/internal/servers": true}

// Each package imports only those below it; cluster and redlock do not know each other.
func TestFloors(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel("../..", path)
		dir := filepath.ToSlash(filepath.Dir(name))
		if strings.HasPrefix(dir, "internal/") {
			dir = "internal"
		}
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		below, ok := floors[dir]
		if !ok {
			if top, _, _ := strings.Cut(dir, "/"); floors[top] != "" {
				t.Errorf("%s: nobody says on which packages %s stands", name, dir)
			}
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if strings.HasPrefix(imported, "github.com/redis/go-redis/") && !controls[dir] {
				t.Errorf("%s imports go-redis, which is for the control plane", name)
			}
			imported, ours := strings.CutPrefix(imported, "lockproxy/")
			if !ours {
				continue
			}
			seen++
			if strings.HasPrefix(imported, "internal/") {
				imported = "internal"
			}
			if !strings.Contains(" "+below+" ", " "+imported+" ") {
				t.Errorf("%s imports %s: %s stands on %s", name, imported, dir, below)
			}
		}
		return nil
	})
	if err != nil || seen < 20 {
		t.Errorf("%d imports looked at, %v", seen, err)
	}
}
