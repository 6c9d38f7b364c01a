package deploy

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)#]*)(?:#([a-z-]+))?\)`)

// Each link of the page leads somewhere.
func TestLinksOfDeploy(t *testing.T) {
	for _, m := range link.FindAllStringSubmatch(read(t, "README.md"), -1) {
		text, err := os.ReadFile(filepath.Join(folder, cmp.Or(m[1], "README.md")))
		if err != nil {
			t.Errorf("the link to %s leads nowhere: %v", m[1], err)
		}
		if m[2] != "" && !anchors(string(text))[m[2]] {
			t.Errorf("%s has no heading for #%s", m[1], m[2])
		}
	}
	if !strings.Contains(page(t, "operations.md"), "(deploy/README.md)") {
		t.Error("docs/operations.md does not name docs/deploy")
	}
}
