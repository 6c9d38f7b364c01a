//go:build !quick

package pubsub_test

import (
	"testing"

	"lockproxy/integration/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
