//go:build race

package quorum_test

import "flag"

// The race detector makes the model several times as slow, so it runs fewer schedules. A flag on the
// command line goes before this.
func init() { flag.Set("rapid.checks", "40") }
