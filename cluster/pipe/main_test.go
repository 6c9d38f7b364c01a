//go:build !quick

package pipe_test

import (
	"testing"

	"lockproxy/integration/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
