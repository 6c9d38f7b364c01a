package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Products are the servers that integration/servers.sh fetches, and "redis7", which is what PATH finds.
var Products = []string{"redis6", "redis7", "redis8", "valkey8", "valkey9"}

// On is l, and has the servers that are started for it be those of that name, one of Products. A server that
// is not there fails l.
func On(l Life, product string) Life {
	l.Helper()
	if product == "redis7" {
		return l
	}
	dir := os.Getenv("LOCKPROXY_SERVERS")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			l.Fatalf("%v", err)
		}
		dir = filepath.Join(cache, "lockproxy-servers")
	}
	program := filepath.Join(dir, product, "redis-server")
	if _, err := exec.LookPath(program); err != nil {
		l.Fatalf("%s is not installed: run `make tools`, or `integration/servers.sh get`: %v", product, err)
	}
	return onProduct{l, program}
}

// onProduct is a Life whose servers are another program.
type onProduct struct {
	Life
	program string
}

// serverOf is the program that a server of l runs.
func serverOf(l Life) string {
	if on, ok := l.(onProduct); ok {
		return on.program
	}
	return "redis-server"
}

// majors are the versions of programs, once they were asked.
var majors sync.Map

// majorOf is the version of a server's program, 7 say; 0: it does not tell.
func majorOf(program string) (major int) {
	if known, ok := majors.Load(program); ok {
		return known.(int)
	}
	out, _ := exec.Command(program, "--version").Output()
	if _, version, ok := strings.Cut(string(out), " v="); ok {
		fmt.Sscanf(version, "%d", &major)
	}
	majors.Store(program, major)
	return major
}
