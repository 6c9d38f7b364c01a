//go:build !linux

package main

import "time"

// nap sleeps.
func nap(d time.Duration) { time.Sleep(d) }
