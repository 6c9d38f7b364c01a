package deploy

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

var helm = flag.Bool("helm", false, "compare the chart with what Helm itself makes of it, and note that")

// noted has a line for each set of values: the sums of the values, and of what Helm made of them, or
// "refused".
const noted = "testdata/helm.txt"

// Helm itself makes of the chart what these tests take it for. `make chart` compiles Helm, which takes
// minutes of CPU, and asks it; what it said is noted, so that this test sees without it whether it has said
// so of this chart.
func TestChartIsHelms(t *testing.T) {
	cases := []string{"", least, most, least + "podMonitor" + monitored, least + "serviceMonitor" + monitored}
	for more := range mistakes {
		cases = append(cases, overlay(least, more))
	}
	for _, c := range choices {
		cases = append(cases, c.values)
	}
	var lines []string
	for _, values := range cases {
		made, err := render(values)
		result := "refused"
		if err == nil {
			result = sum(made.manifests + made.notes)
		}
		lines = append(lines, sum(values)+" "+result+"\n")
		if *helm {
			compare(t, values, made, err)
		}
	}
	slices.Sort(lines)
	text := strings.Join(slices.Compact(lines), "")
	if *helm && !t.Failed() {
		write(t, noted, text)
	}
	was, err := os.ReadFile(noted)
	if err != nil {
		t.Fatal(err)
	}
	if string(was) != text {
		t.Error("Helm has not been asked about this chart and these values: `make chart`")
	}
}

func sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16] }

// compare sees that Helm makes the same of the values, and that its linter has nothing to say.
func compare(t *testing.T, values string, made rendering, refused error) {
	t.Helper()
	manifests, ok := runHelm(t, "template", values)
	if ok != (refused == nil) {
		t.Errorf("Helm says %s, and this test %v, of %s", manifests, refused, values)
	}
	if said, fine := runHelm(t, "lint", values); !fine && (ok || values == "") {
		t.Errorf("helm lint: %s with %s", said, values)
	}
	if !ok || refused != nil {
		return
	}
	notes, _ := runHelm(t, "notes", values)
	for name, both := range map[string][2]string{"manifests": {manifests, made.manifests},
		"notes": {notes, made.notes}} {
		if both[0] != both[1] {
			t.Errorf("the %s are\n%s\nand Helm makes\n%s\nwith %s", name, both[1], both[0], values)
		}
	}
}

// judge is the program in testdata/helm, a module of its own, which stays in the user's cache.
var judge = rig.Shared(func(l rig.Life) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		l.Fatalf("%v", err)
	}
	program := filepath.Join(cache, "lockproxy-tests", "helm")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, ".")
	build.Dir, build.Env = "testdata/helm", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		l.Fatalf("go build in testdata/helm: %s%v", out, err)
	}
	return program
})

// runHelm returns what Helm says of the chart with these values.
func runHelm(t *testing.T, command, values string) (said string, ok bool) {
	t.Helper()
	c := exec.Command(judge(), command, chart, "-")
	c.Stdin = strings.NewReader(values)
	out, err := c.CombinedOutput()
	return string(out), err == nil
}
