//go:build !quick

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// here is packed without compression, which would be most of the work.
var here = version{
	version: "9.8.7", commit: "c0ffee123456", source: "../..", time: time.Unix(1.8e9, 0).UTC(),
}

// copySources makes a copy of the sources elsewhere, without tests.
func copySources(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel("../..", path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(strings.Fields(".git integration docs testdata dist"), d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !d.Type().IsRegular() || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func read(t *testing.T, elem ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// unpack returns the files of an archive by name, and sees that each could have been packed by anybody.
func unpack(t *testing.T, packed []byte, folder string) map[string]archiveFile {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]archiveFile{}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		name, inside := strings.CutPrefix(h.Name, folder+"/")
		if !inside || h.Uid != 0 || h.Uname != "" || !h.ModTime.Equal(here.time) {
			t.Errorf("%s is of %d %q, from %v", h.Name, h.Uid, h.Uname, h.ModTime)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = archiveFile{name, h.Mode, text}
	}
}

// A release of one platform is made twice, of sources in two places: the bytes are the same, and all is there
// that the others have too.
func TestRelease(t *testing.T) {
	r := here
	r.out = filepath.Join(t.TempDir(), "dist")
	if err := r.makeRelease([]platform{{"linux", "amd64"}}); err != nil {
		t.Fatal(err)
	}
	again := r
	again.source, again.out = copySources(t), filepath.Join(t.TempDir(), "deeper", "dist")
	if err := again.makeRelease([]platform{{"linux", "amd64"}}); err != nil {
		t.Fatal(err)
	}
	list := string(read(t, r.out, "SHA256SUMS"))
	if other := string(read(t, again.out, "SHA256SUMS")); other != list {
		t.Errorf("made again it is another one:\n%s\n%s", list, other)
	}
	names := []string{"image.tar.gz", "linux_amd64.cdx.json", "linux_amd64.tar.gz"}
	for i, line := range strings.Split(strings.TrimSpace(list), "\n") {
		name := "lockproxy_9.8.7_" + names[i]
		if want := fmt.Sprintf("%x  %s", sha256.Sum256(read(t, r.out, name)), name); line != want {
			t.Errorf("SHA256SUMS has %q, want %q", line, want)
		}
	}

	files := unpack(t, read(t, r.out, "lockproxy_9.8.7_linux_amd64.tar.gz"), "lockproxy_9.8.7_linux_amd64")
	program := files["lockproxy"]
	binary, err := elf.NewFile(bytes.NewReader(program.text))
	if err != nil || program.mode != 0o755 {
		t.Fatalf("%v, mode %o", err, program.mode)
	}
	// A library that looks methods up by names that the linker does not know makes it keep all methods of all
	// types: then this would be half as large again.
	if len(program.text) > 22<<20 {
		t.Errorf("the binary has %d bytes: go build -ldflags=-dumpdep says what keeps them (ReflectMethod)",
			len(program.text))
	}
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary has a %v: it is not static", p.Type)
		}
	}
	for name, has := range map[string]string{
		"LICENSE": "Apache License", "NOTICE": "go-redis", "CHANGELOG.md": "## 0.1.0", "lockproxy.1": ".TH",
		"completions/lockproxy.bash": "lockproxy", "completions/_lockproxy": "#compdef",
		"completions/lockproxy.fish": "complete -c lockproxy",
	} {
		if f := files[name]; f.mode != 0o644 || !bytes.Contains(f.text, []byte(has)) {
			t.Errorf("%s: mode %o, %d bytes without %q", name, f.mode, len(f.text), has)
		}
	}
	if len(files) != 8 {
		t.Errorf("%d files", len(files))
	}
	testBill(t, read(t, r.out, "lockproxy_9.8.7_linux_amd64.cdx.json"), program.text)

	image := unpack(t, read(t, r.out, "lockproxy_9.8.7_image.tar.gz"), "lockproxy_9.8.7_image")
	testImage(t, image)
	if !bytes.Equal(image["lockproxy-linux-amd64"].text, program.text) {
		t.Error("the image has another binary")
	}
}

// bill is one as its readers see it: a key that is not here is one too many.
type bill struct {
	Format   string `json:"bomFormat"`
	Spec     string `json:"specVersion"`
	Serial   string `json:"serialNumber"`
	Version  int
	Metadata struct {
		Timestamp string
		Component component
	}
	Components   []component
	Dependencies []struct {
		Ref string
		On  []string `json:"dependsOn"`
	}
}

type component struct {
	Type, Name, Version string
	Ref                 string `json:"bom-ref"`
	URL                 string `json:"purl"`
	Hashes              []struct{ Alg, Content string }
	Licenses            []struct{ License struct{ ID string } }
	Properties          []struct{ Name, Value string }
}

// testBill compares a bill with what `go version -m` says of the binary.
func testBill(t *testing.T, text, program []byte) {
	t.Helper()
	var b bill
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&b); err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(program))
	if c := b.Metadata.Component; c.Hashes[0].Content != sum || c.Version != "9.8.7" ||
		c.Properties[0].Value != here.commit {
		t.Errorf("it is about %+v", c)
	}
	serial := regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-` +
		`[0-9a-f]{12}$`)
	if b.Format != "CycloneDX" || b.Spec != "1.6" || !serial.MatchString(b.Serial) {
		t.Errorf("%s %s %s", b.Format, b.Spec, b.Serial)
	}
	path := filepath.Join(t.TempDir(), "lockproxy")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command("go", "version", "-m", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`^\S+ go(\S+)`).FindSubmatch(said)
	want := []string{"pkg:golang/std@" + string(version[1])}
	for _, m := range regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)\t`).FindAllSubmatch(said, -1) {
		want = append(want, "pkg:golang/"+string(m[1])+"@"+string(m[2]))
	}
	var got []string
	for _, c := range b.Components {
		got = append(got, c.Ref)
	}
	if !slices.Equal(got, want) || len(want) < 10 || !slices.Equal(b.Dependencies[0].On, want) ||
		len(b.Dependencies) != len(want)+1 {
		t.Errorf("the bill lists\n%q\nthe binary\n%q", got, want)
	}
}

// testImage sees that what the Dockerfile copies is in the context, and that it runs as that of the sources.
func testImage(t *testing.T, files map[string]archiveFile) {
	t.Helper()
	text := string(files["Dockerfile"].text)
	ours := string(read(t, "../../Dockerfile"))
	_, last, _ := strings.Cut(ours, "\nFROM scratch\n")
	for line := range strings.SplitSeq(last, "\n") {
		if !strings.Contains(line, "/out/lockproxy") && !strings.Contains(text, line) {
			t.Errorf("the Dockerfile lacks %q", line)
		}
	}
	if strings.Contains(text, "RUN ") || strings.Contains(text, "/out/") {
		t.Errorf("the Dockerfile compiles:\n%s", text)
	}
	copied := 0
	for _, m := range regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllStringSubmatch(text, -1) {
		for name := range strings.FieldsSeq(strings.ReplaceAll(m[1], "${TARGETARCH}", "amd64")) {
			copied++
			if len(files[name].text) == 0 {
				t.Errorf("the context lacks %s", name)
			}
		}
	}
	if copied != 3 {
		t.Errorf("%d files are copied", copied)
	}
}

// What is not compiled in this test is there for each platform: its packages, and their licences in NOTICE.
func TestPlatforms(t *testing.T) {
	notice := string(read(t, "../../NOTICE"))
	for _, p := range all {
		list := exec.Command("go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./cmd/lockproxy")
		list.Dir = "../.."
		list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch)
		out, err := list.Output()
		if err != nil {
			t.Fatalf("%v: %v", p, err)
		}
		modules := strings.Split(strings.TrimSpace(string(out)), "\n")
		slices.Sort(modules)
		for _, line := range slices.Compact(modules) {
			if line != "" && !strings.Contains(notice, line+"\n") {
				t.Errorf("%v: NOTICE lacks %s", p, line)
			}
		}
	}
}

func TestArguments(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	args := []string{"-version", "1.2.3", "-commit", "abc"}
	r, chosen, err := parseFlags(append(args, "-only", "linux/arm64,darwin/amd64"))
	if err != nil || r.version != "1.2.3" || r.commit != "abc" || r.time.Unix() != 1700000000 ||
		r.level != gzip.BestCompression ||
		!slices.Equal(chosen, []platform{{"linux", "arm64"}, {"darwin", "amd64"}}) {
		t.Errorf("%+v %v %v", r, chosen, err)
	}
	if _, chosen, err := parseFlags(args); err != nil || len(chosen) != 4 {
		t.Errorf("%v %v", chosen, err)
	}
	for _, wrong := range [][]string{{}, {"-version", "1", "-only", "plan9/386"},
		{"-version", "1", "-only", "linux/amd64,linux/risc"}, {"-version", "1", "more"}} {
		if _, _, err := parseFlags(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}
