// Package rounds measures how long the rounds of a loop are under attack. It runs alone: what else the
// machine does makes rounds long.
package rounds

import (
	"testing"

	"lockproxy/integration/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
