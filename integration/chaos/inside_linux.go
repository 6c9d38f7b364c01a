package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideMark in the environment says that the program has been started inside.
const insideMark = "CHAOS_INSIDE"

// inside runs the program again in a network and with a file of host names of its own, and exits with what
// that ends with. It returns if the system does not allow it, and in the program that runs inside. Whatever
// becomes of that, nothing of it is left in the network of the machine.
func inside() {
	if os.Getenv(insideMark) != "" {
		if err := furnish(); err != nil {
			fmt.Fprintln(os.Stderr, "chaos:", err)
			os.Exit(1)
		}
		isInside = true
		os.Unsetenv(insideMark) // servers have nothing to do with it
		return
	}
	// Modules that the build of lockproxy needs cannot be downloaded from there.
	if out, err := exec.Command("go", "mod", "download").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "chaos: go mod download: %v\n%s", err, out)
	}
	runtime.LockOSThread() // whose end would end the program that it starts
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideMark+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		Pdeathsig: syscall.SIGTERM}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if err := cmd.Start(); err != nil {
		signal.Stop(signals)
		fmt.Fprintln(os.Stderr, "chaos: without a network of its own:", err)
		return
	}
	go func() { // ends with the program
		for s := range signals {
			cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}

// furnish has the loopback of the new network work, and puts a file of its own before /etc/hosts.
func furnish() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	f, err := os.CreateTemp("", "lockproxy-chaos-hosts-")
	if err != nil {
		return err
	}
	defer f.Close()
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.Name(), hosts, 0o644); err != nil {
		return err
	}
	if err := unix.Mount(f.Name(), "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("host names: %w", err)
	}
	hostsFile = "/etc/hosts"
	return os.Remove(f.Name())
}
