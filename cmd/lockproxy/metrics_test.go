package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Each metric stands in the table of docs/operations.md.
func TestDocsTellTheMetrics(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan *prometheus.Desc, 200)
	collector{}.Describe(all)
	reloads{}.Describe(all)
	close(all)
	seen := 0
	for desc := range all {
		name := regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(desc.String())[1]
		if seen++; !strings.Contains(string(text), "`"+name+"`") &&
			!strings.Contains(string(text), "`"+name+"{") {
			t.Errorf("docs/operations.md does not tell of %s", name)
		}
	}
	if seen < 30 {
		t.Errorf("only %d metrics", seen)
	}
}
