//go:build quick

package redlock

import (
	"testing"
	"testing/synctest"
)

// everywhere runs test in fake time. Without the tag quick it runs over a real Redis too.
func everywhere(t *testing.T, test func(t *testing.T, s *server)) {
	t.Run("fake time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, newMini(t)) })
	})
}
