//go:build !quick

// Package release tests what `make release` makes (integration/release.sh).
package release

import (
	"archive/tar"
	"bytes"
	"cmp"
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
)

const version, commit, seconds = "9.8.7", "c0ffee123456", 1_800_000_000

// all are the platforms that are published.
var all = strings.Fields("linux/amd64 linux/arm64 darwin/amd64 darwin/arm64")

// packed is a file of an archive.
type packed struct {
	mode int64
	text []byte
}

// makeRelease makes a release of the sources in a directory, into out. command is the Go command; "": the
// usual one. Compression would be most of the work, so there is hardly any.
func makeRelease(t *testing.T, source, out, command string, args ...string) error {
	t.Helper()
	script, err := filepath.Abs("../release.sh")
	if err != nil {
		t.Fatal(err)
	}
	made := exec.Command(script, args...)
	made.Dir = source
	made.Env = append(os.Environ(), "OUT="+out, "COMMIT="+commit, "LEVEL=1", "GO="+cmp.Or(command, "go"),
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", seconds))
	said, err := made.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
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
func unpack(t *testing.T, archive []byte, folder string) map[string]packed {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]packed{}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		name, inside := strings.CutPrefix(h.Name, folder+"/")
		if !inside || h.Uid != 0 || h.Uname != "" || h.ModTime.Unix() != seconds {
			t.Errorf("%s is of %d %q, from %v", h.Name, h.Uid, h.Uname, h.ModTime)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = packed{h.Mode, text}
	}
}

// A release of one platform is made twice, of sources in two places: the bytes are the same, and all is there
// that the others have too.
func TestRelease(t *testing.T) {
	out, again := filepath.Join(t.TempDir(), "dist"), filepath.Join(t.TempDir(), "deeper", "dist")
	if err := makeRelease(t, "../..", out, "", version, "linux/amd64"); err != nil {
		t.Fatal(err)
	}
	if err := makeRelease(t, copySources(t), again, "", version, "linux/amd64"); err != nil {
		t.Fatal(err)
	}
	list := string(read(t, out, "SHA256SUMS"))
	if other := string(read(t, again, "SHA256SUMS")); other != list {
		t.Errorf("made again it is another one:\n%s\n%s", list, other)
	}
	names := []string{"image.tar.gz", "linux_amd64.cdx.json", "linux_amd64.tar.gz"}
	for i, line := range strings.Split(strings.TrimSpace(list), "\n") {
		name := "lockproxy_9.8.7_" + names[i]
		if want := fmt.Sprintf("%x  %s", sha256.Sum256(read(t, out, name)), name); line != want {
			t.Errorf("SHA256SUMS has %q, want %q", line, want)
		}
	}

	files := unpack(t, read(t, out, "lockproxy_9.8.7_linux_amd64.tar.gz"), "lockproxy_9.8.7_linux_amd64")
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
	testBill(t, read(t, out, "lockproxy_9.8.7_linux_amd64.cdx.json"), program.text)

	image := unpack(t, read(t, out, "lockproxy_9.8.7_image.tar.gz"), "lockproxy_9.8.7_image")
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
	if c := b.Metadata.Component; c.Hashes[0].Content != sum || c.Version != version ||
		c.Properties[0].Value != commit {
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
	compiler := regexp.MustCompile(`^\S+ go(\S+)`).FindSubmatch(said)
	want := []string{"pkg:golang/std@" + string(compiler[1])}
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
func testImage(t *testing.T, files map[string]packed) {
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
		system, processor, _ := strings.Cut(p, "/")
		list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor)
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

// compiler stands in for the Go command: what it makes prints its arguments.
const compiler = `#!/bin/sh
case $1 in
env) exec go "$@" ;;
version)
	echo '{"GoVersion": "go1.2", "Deps": [{"Path": "a", "Replace":
		{"Path": "b", "Version": "v1", "Sum": "h1"}}]}' ;;
build)
	while [ "$1" != -o ]; do shift; done
	printf '#!/bin/sh\necho "$@"\n' >"$2"
	chmod +x "$2" ;;
esac
`

func TestArguments(t *testing.T) {
	command := filepath.Join(t.TempDir(), "go")
	if err := os.WriteFile(command, []byte(compiler), 0o755); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "dist")
	some := []string{"linux/arm64", "darwin/amd64"}
	for _, only := range [][]string{nil, some} { // the second takes the place of the first
		if err := makeRelease(t, "../..", out, command, append([]string{version}, only...)...); err != nil {
			t.Fatal(err)
		}
		want := []string{"SHA256SUMS", "lockproxy_9.8.7_image.tar.gz"}
		if only == nil {
			only = all
		}
		for _, p := range only {
			name := "lockproxy_9.8.7_" + strings.ReplaceAll(p, "/", "_")
			want = append(want, name+".cdx.json", name+".tar.gz")
		}
		slices.Sort(want)
		var got []string
		entries, err := os.ReadDir(out)
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v makes\n%q, want\n%q", only, got, want)
		}
	}
	var b bill
	err := json.Unmarshal(read(t, out, "lockproxy_9.8.7_darwin_amd64.cdx.json"), &b)
	if err != nil || b.Metadata.Timestamp != "2027-01-15T08:00:00Z" ||
		b.Components[1].Ref != "pkg:golang/b@v1" ||
		fmt.Sprint(b.Components[1].Properties) != "[{go.sum h1} {replaces a}]" {
		t.Errorf("%+v, %v", b, err)
	}
	for _, wrong := range [][]string{{}, {"1", "plan9/386"}, {"1", "linux/amd64", "linux/risc"},
		{"1", "more"}} {
		if err := makeRelease(t, "../..", out, command, wrong...); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}
