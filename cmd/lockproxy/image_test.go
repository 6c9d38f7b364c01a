//go:build !quick

package main

import (
	"bytes"
	"debug/elf"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dockerfile returns the instructions of the Dockerfile, one a line: "RUN go ...".
func dockerfile(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, line := range strings.Split(string(text), "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

// instruction returns the arguments of the last instruction that begins so.
func instruction(t *testing.T, begin string) string {
	t.Helper()
	found := ""
	for _, line := range dockerfile(t) {
		if rest, ok := strings.CutPrefix(line, begin); ok {
			found = rest
		}
	}
	if found == "" {
		t.Errorf("Dockerfile has no %s", begin)
	}
	return found
}

// The command in the Dockerfile builds a binary that needs nothing beside it, and
// that knows its version and commit.
func TestImageHoldsAStaticBinary(t *testing.T) {
	out := filepath.Join(t.TempDir(), "lockproxy")
	command := "CGO_ENABLED=0 " + instruction(t, "RUN CGO_ENABLED=0 ")
	command = strings.NewReplacer("${VERSION}", "9.8.7", "${COMMIT}", "c0ffee1234", "/out/lockproxy",
		out).Replace(command)
	build := exec.Command("sh", "-c", command)
	build.Dir = "../.."
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, text)
	}
	binary, err := elf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary has a %v: it is not static", p.Type)
		}
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"9.8.7", "c0ffee1234"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s is not in the binary", want)
		}
	}
}

func TestImageFacts(t *testing.T) {
	for _, line := range dockerfile(t) {
		sources, ok := strings.CutPrefix(line, "COPY ")
		if !ok || strings.HasPrefix(sources, "--from=") {
			continue
		}
		words := strings.Fields(sources)
		for _, source := range words[:len(words)-1] {
			if _, err := os.Stat(filepath.Join("../..", source)); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	release, _, _ := strings.Cut(instruction(t, "FROM golang:"), " ")
	if !bytes.Contains(module, []byte("\ngo "+release)) {
		t.Errorf("the image builds with Go %s, go.mod says otherwise", release)
	}
	if got := instruction(t, "ARG VERSION="); got != version {
		t.Errorf("VERSION is %s, the program's is %s", got, version)
	}
	if got := instruction(t, "USER "); !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(got) {
		t.Errorf("USER %s: must be a number that is not root's", got)
	}
	if got := instruction(t, "STOPSIGNAL "); got != "SIGTERM" {
		t.Errorf("STOPSIGNAL %s: it drains on SIGTERM", got)
	}
	if got := instruction(t, "HEALTHCHECK "); !strings.HasSuffix(got, `CMD ["/lockproxy", "health"]`) {
		t.Errorf("HEALTHCHECK %s", got)
	}
	if got := instruction(t, "ENTRYPOINT "); got != `["/lockproxy"]` {
		t.Errorf("ENTRYPOINT %s", got)
	}

	// As the image sets it, the program listens where the image says, with a
	// password only.
	environ := []string{instruction(t, "ENV ")}
	args := []string{"--upstream", "redis:6379"}
	r := settingsFrom(args, environ).Read()
	v := r.Values
	if _, port, _ := net.SplitHostPort(v.Listen[0]); port != instruction(t, "EXPOSE ") {
		t.Errorf("listens on %v, which is not exposed", v.Listen)
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "requirepass") {
		t.Errorf("without a password: %v", err)
	}
	r = settingsFrom(append(args, "--requirepass", "secret"), environ).Read()
	if err := r.Err(); err != nil {
		t.Errorf("with a password: %v", err)
	}
}
