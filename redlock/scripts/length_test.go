package scripts

import (
	"strings"
	"testing"
)

// A script is read at one sitting, parts and all.
func TestScriptsAreShort(t *testing.T) {
	// acquire and release have to do without the fence, too, while a slot moves.
	most := map[string]int{"acquire": 520, "claim": 335, "release": 350}
	for _, s := range All() {
		limit := most[s.Name]
		if limit == 0 {
			limit = 330
		}
		if lines := strings.Count(s.Source, "\n"); lines > limit {
			t.Errorf("%s has %d lines without comments, want %d at most", s.Name, lines, limit)
		}
	}
}
