//go:build !quick

package discovery_test

import (
	"testing"

	"lockproxy/integration/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
