//go:build unix

package limits

import "syscall"

// OpenFiles is how many descriptors the process may have. The Go runtime has raised
// the soft limit to the hard one.
func OpenFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1 << 62
	}
	return uint64(limit.Cur)
}
