// release makes what is published of a version, into a directory:
//
//	lockproxy_0.1.0_linux_amd64.tar.gz    the static binary, licences, manual page and completions;
//	                                      likewise linux_arm64, darwin_amd64 and darwin_arm64
//	lockproxy_0.1.0_linux_amd64.cdx.json  what is linked into it (CycloneDX); likewise the others
//	lockproxy_0.1.0_image.tar.gz          a context from which an image is made without a compiler
//	SHA256SUMS                            of all of them
//
// The same sources, commit and Go make the same bytes, wherever and whenever they are made.
package main

import (
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// version is one version that is made.
type version struct {
	version, commit string
	time            time.Time // of the commit: all files have it
	source, out     string    // directories
	level           int       // of gzip
}

// platform is one for which there is a binary.
type platform struct{ os, arch string }

// all are those that are published.
var all = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func main() {
	r, platforms, err := parseFlags(os.Args[1:])
	if err == nil {
		err = r.makeRelease(platforms)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// parseFlags reads the command line. Flags that are wrong end the process.
func parseFlags(args []string) (r version, chosen []platform, err error) {
	r.level = gzip.BestCompression
	f := flag.NewFlagSet("release", flag.ExitOnError)
	f.StringVar(&r.version, "version", "", "version, as in 0.1.0")
	f.StringVar(&r.commit, "commit", "", "commit that the binaries name (default: that of the sources)")
	f.StringVar(&r.source, "source", ".", "directory of the sources")
	f.StringVar(&r.out, "out", "dist", "directory to make")
	only := f.String("only", "", "platforms, as in linux/amd64,darwin/arm64 (default: all)")
	f.Parse(args)
	if r.version == "" || f.NArg() > 0 {
		return r, nil, fmt.Errorf("usage: release -version VERSION [-out DIR] [-only OS/ARCH,...]")
	}
	for _, p := range all {
		if *only == "" || strings.Contains(","+*only+",", ","+p.os+"/"+p.arch+",") {
			chosen = append(chosen, p)
		}
	}
	// fewer chosen than named: one of them is misspelt
	if len(chosen) == 0 || *only != "" && len(chosen) != strings.Count(*only, ",")+1 {
		return r, nil, fmt.Errorf("-only %s: the platforms are %v", *only, all)
	}
	if r.time, err = r.commitTime(); err == nil && r.commit == "" {
		r.commit, err = r.git("rev-parse", "--short=12", "HEAD")
	}
	return r, chosen, err
}

// commitTime is when the commit was made, or what SOURCE_DATE_EPOCH says where there is no repository.
func (r version) commitTime() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var err error
		if text, err = r.git("log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, fmt.Errorf("%w (without a repository: -commit and SOURCE_DATE_EPOCH)", err)
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}

func (r version) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stderr = r.source, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%v: %w", cmd, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// makeRelease makes everything in a new directory, which takes the place of the old one when all is there.
func (r version) makeRelease(platforms []platform) error {
	if err := os.MkdirAll(filepath.Dir(r.out), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(r.out), ".release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// In the same folder as the old directory, so that it is renamed and not copied.
	done := filepath.Join(work, "dist")
	if err := os.Mkdir(done, 0o755); err != nil {
		return err
	}
	here := filepath.Join(work, "lockproxy-here") // writes the manual page and the completions
	if err := r.buildBinary(platform{runtime.GOOS, runtime.GOARCH}, here); err != nil {
		return err
	}
	common, err := r.commonFiles(here)
	if err != nil {
		return err
	}
	image, err := r.imageFiles()
	if err != nil {
		return err
	}
	for _, p := range platforms {
		binary, err := r.publishPlatform(p, here, work, done, common)
		if err != nil {
			return err
		}
		if p.os == "linux" {
			image = append(image, archiveFile{"lockproxy-linux-" + p.arch, 0o755, binary})
		}
	}
	if err := r.archive(filepath.Join(done, r.name("image.tar.gz")), r.name("image"), image); err != nil {
		return err
	}
	if err := writeSums(done); err != nil {
		return err
	}
	// Everything is there and right: only now the old release goes.
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	return os.Rename(done, r.out)
}

// name is that of a file of the release.
func (r version) name(rest string) string { return "lockproxy_" + r.version + "_" + rest }

// publishPlatform makes what there is for one platform, and returns its binary. That of this one is here
// already.
func (r version) publishPlatform(p platform, here, work, done string, common []archiveFile) ([]byte, error) {
	path := here
	if p != (platform{runtime.GOOS, runtime.GOARCH}) {
		path = filepath.Join(work, "lockproxy-"+p.os+"-"+p.arch)
		if err := r.buildBinary(p, path); err != nil {
			return nil, err
		}
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	name := r.name(p.os + "_" + p.arch)
	files := append([]archiveFile{{"lockproxy", 0o755, binary}}, common...)
	if err := r.archive(filepath.Join(done, name+".tar.gz"), name, files); err != nil {
		return nil, err
	}
	bill, err := r.bill(path, p)
	if err != nil {
		return nil, err
	}
	return binary, os.WriteFile(filepath.Join(done, name+".cdx.json"), bill, 0o644)
}

// buildBinary compiles the program as the Dockerfile and `make build` do. What the Go command would note of
// the repository is left out: it would differ in a copy of the sources.
func (r version) buildBinary(p platform, out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	// -trimpath leaves out where the sources lie, -s -w the tables for debuggers.
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version="+r.version+" -X main.commit="+r.commit,
		"-o", out, "./cmd/lockproxy")
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.source, os.Stdout, os.Stderr
	// Without cgo the binary is static, and needs no C library of its machine.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOFLAGS=-mod=readonly")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s/%s: %w", p.os, p.arch, err)
	}
	return nil
}
