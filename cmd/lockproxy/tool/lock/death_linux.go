package lock

import "syscall"

// endWithParent has the command ended if this program is killed, and can do so no more.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }
