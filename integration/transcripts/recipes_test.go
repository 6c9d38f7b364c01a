package transcripts

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// recipes are the conversations of docs/recipes.md, by the heading above each.
func recipes(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for section := range strings.SplitSeq(string(page), "\n## ") {
		name, _, _ := strings.Cut(section, "\n")
		for i, block := range strings.Split(section, "```transcript\n")[1:] {
			text, _, ended := strings.Cut(block, "\n```")
			if !ended {
				t.Fatalf("%s: block %d does not end", name, i+1)
			}
			all[fmt.Sprintf("%s %d", name, i+1)] = text
		}
	}
	if len(all) < 6 {
		t.Fatalf("%d recipes", len(all))
	}
	return all
}

// Each recipe is what happens over one Redis, and with -long over each kind of upstream.
func TestRecipes(t *testing.T) {
	t.Parallel()
	for _, target := range rig.Dose([]string{"single"}, []string{"dev", "single", "cluster"}) {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			addr := targets[target](t)
			for name, text := range recipes(t) {
				tr, err := parse(text)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				t.Run(name, func(t *testing.T) { play(t, tr, addr) })
			}
		})
	}
}
