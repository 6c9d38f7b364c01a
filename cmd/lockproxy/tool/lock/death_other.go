//go:build unix && !linux

package lock

import "syscall"

// endWithParent does nothing: this system cannot do it.
func endWithParent(*syscall.SysProcAttr) {}
