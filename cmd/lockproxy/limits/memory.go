// Package limits finds out what this process may have (memory, processors, open files),
// and keeps it within that.
package limits

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// assumedMemory is used if it cannot be found out how much memory there is.
	assumedMemory = 4 << 30
	// softPercent is from which part of that memory on the garbage collector works harder. The rest is for
	// what the collector does not count: stacks of the kernel, buffers of sockets, and growth until it has
	// caught up.
	softPercent = 75
)

// memoryThere is how much memory this process may use: all of the machine, or the lowest limit of its
// control groups. root is the root of the file system. 0: it is not known.
func memoryThere(root fs.FS) int64 {
	least := machineMemory(root)
	for _, file := range groupFiles(root) {
		text, _ := fs.ReadFile(root, file)
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is none
		if err == nil && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// machineMemory is MemTotal of /proc/meminfo, or 0.
func machineMemory(root fs.FS) int64 {
	var kb int64
	text, _ := fs.ReadFile(root, "proc/meminfo")
	_, total, _ := strings.Cut(string(text), "MemTotal:")
	fmt.Sscan(total, &kb)
	// /proc/meminfo counts in kB of 1024 bytes
	return kb << 10
}

// groupFiles are the files that hold the limits of the control groups that the process is in, from its own
// up to the root: memory.max of version 2, memory.limit_in_bytes of version 1. In a container the root that
// it sees is its own group.
func groupFiles(root fs.FS) (files []string) {
	text, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(text)) { // number:controllers:path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base, name := "sys/fs/cgroup", "memory.max"
		if parts[1] != "" {
			if !strings.Contains(","+parts[1]+",", ",memory,") {
				continue
			}
			base, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		// A group may have less than its parent allows, and a parent less than the group: all of them count.
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			files = append(files, path.Join(base, dir, name))
			if dir == "/" {
				break
			}
		}
	}
	return files
}

// Memory is memoryThere of this machine.
func Memory() int64 {
	if n := memoryThere(os.DirFS("/")); n > 0 {
		return n
	}
	return assumedMemory
}

// LimitHeap makes the garbage collector keep the process within its memory, as far as it can, unless
// GOMEMLIMIT says otherwise.
func LimitHeap(log *slog.Logger, environ func(string) string) {
	if environ("GOMEMLIMIT") != "" {
		return
	}
	there := Memory()
	// A soft limit: beyond it the collector runs more often, and nothing is refused.
	debug.SetMemoryLimit(there / 100 * softPercent)
	log.Debug("memory", "there", there)
}
