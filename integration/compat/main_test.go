//go:build !quick

package compat

import (
	"testing"

	"lockproxy/integration/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
