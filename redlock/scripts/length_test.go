package scripts

import (
	"strings"
	"testing"
)

// A script can be read at one sitting, with its parts.
func TestScriptsAreShort(t *testing.T) {
	// acquire, claim and cancel also end the holds of others, and tell keepers.
	most := map[string]int{"acquire": 691, "cancel": 403, "claim": 428, "release": 456}
	for _, s := range All() {
		limit := most[s.Name]
		if limit == 0 {
			limit = 336
		}
		if lines := strings.Count(s.Source, "\n"); lines > limit {
			t.Errorf("%s has %d lines without comments, want %d at most", s.Name, lines, limit)
		}
	}
}
