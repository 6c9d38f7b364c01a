//go:build quick

package rig

import (
	"testing"
	"testing/synctest"
)

// Everywhere runs test in fake time. Without the tag quick it runs over a real Redis too.
func Everywhere(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Run("fake time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, NewMini(t)) })
	})
}
