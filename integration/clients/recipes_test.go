package clients

import (
	"testing"

	"lockproxy/integration/rig"
)

// What docs/recipes.md guards by a fence refuses a writer that comes late: a row by SQL in PostgreSQL, and
// an object by conditional writes. The conversations of that page are played in integration/transcripts. R23
func TestRecipesWithFences(t *testing.T) {
	t.Parallel()
	script(t, rig.StartProxy(t, "--dev"), startPostgres(t), "python3", "recipes.py")
}
