package main

import (
	"fmt"
	"syscall"
)

// raiseOpenFiles raises the limit of open files (ulimit -n) of this program, and of those that it starts, as
// far as it may, and is what it has become.
func raiseOpenFiles(wanted int) (int, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	most := syscall.Rlimit{Cur: uint64(wanted), Max: max(uint64(wanted), l.Max)}
	// Above the hard limit only the superuser may go.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &most); err == nil {
		return wanted, nil
	}
	l.Cur = min(uint64(wanted), l.Max)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	return int(l.Cur), nil
}
