package rig

import (
	"os"
	"os/signal"
	"regexp"
	"syscall"
)

// personal are variables by which a machine, or who runs the tests, changes what programs do: settings of
// lockproxy, languages, passwords, the supervisor.
var personal = regexp.MustCompile(`^(LOCKPROXY_|LC_|LANG|REDISCLI_|PG|NOTIFY_|WATCHDOG_|LISTEN_|NO_COLOR)`)

// apart keeps that from this process and all that it starts. A signal that is ignored, as under nohup, or in
// the background of a shell, would be ignored by them as well: here it is caught, and still does nothing.
func apart() {
	for _, line := range os.Environ() {
		if name := variable.FindString(line); personal.MatchString(name) && name != "LOCKPROXY_SERVERS" {
			os.Unsetenv(name)
		}
	}
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

var variable = regexp.MustCompile(`^[^=]*`)
