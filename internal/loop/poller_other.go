//go:build !linux

package loop

func newPoller() (poller, error) { return newPortable(), nil }
