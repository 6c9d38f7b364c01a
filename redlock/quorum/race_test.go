//go:build race

package quorum_test

import "flag"

// The race detector makes the model some times as slow: fewer voyages show what it has to see. A flag on the
// command line goes before this.
func init() { flag.Set("rapid.checks", "40") }
