package main

import (
	"context"
	"regexp"
	"syscall"
	"testing"

	"lockproxy/cmd/lockproxy/lifecycle"
)

// Where nobody reads along, the log says what to try, with the addresses that are listened on.
func TestDevSaysWhatToTry(t *testing.T) {
	pl := &scriptedPlane{drained: make(chan struct{})}
	close(pl.drained)
	r := startProgram(t, "--dev --admin 127.0.0.1:0",
		func(context.Context, []string) (lifecycle.Plane, error) { return pl, nil })
	port := r.log.find(t, `msg=listening addr=127\.0\.0\.1:(\d+)\n`)
	admin := r.log.find(t, `msg="admin listening" addr=(127\.0\.0\.1:\d+)\n`)
	cli := "redis-cli -p " + port
	for _, want := range []string{cli + " LOCK job", cli + " UNLOCK job", "http://" + admin,
		" lock --proxy 127.0.0.1:" + port + " job -- ", "Ctrl-C"} {
		r.log.find(t, `level=INFO msg="dev: to try" what=.* do=.*`+regexp.QuoteMeta(want))
	}
	r.signals <- syscall.SIGTERM
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
}
