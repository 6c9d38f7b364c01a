//go:build limits

// Package rounds measures how long the rounds of a loop are under attack (make limits). It runs alone: what
// else the machine does makes rounds long. That rounds are bounded is counted in proxy/rounds_test.go.
package rounds

import (
	"testing"

	"lockproxy/integration/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
