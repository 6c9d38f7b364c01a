package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// archiveFile is one of an archive. name is a path within the folder of the archive.
type archiveFile struct {
	name string
	mode int64
	text []byte
}

// commonFiles are the files that stand beside the binary of each platform. program is a binary for this
// machine: the manual page and the completions are what it prints of itself.
func (r version) commonFiles(program string) (files []archiveFile, err error) {
	for _, name := range []string{"LICENSE", "NOTICE", "CHANGELOG.md"} {
		text, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return nil, err
		}
		files = append(files, archiveFile{name, 0o644, text})
	}
	for _, printed := range []struct{ name, by string }{
		{"lockproxy.1", "man"},
		{"completions/lockproxy.bash", "completion bash"},
		{"completions/_lockproxy", "completion zsh"},
		{"completions/lockproxy.fish", "completion fish"},
	} {
		args := strings.Fields(printed.by)
		text, err := exec.Command(program, args...).Output()
		if err != nil || len(text) == 0 {
			return nil, fmt.Errorf("lockproxy %v: %d bytes, %w", args, len(text), err)
		}
		files = append(files, archiveFile{printed.name, 0o644, text})
	}
	return files, nil
}

var (
	stages = regexp.MustCompile(`(?s)\n(FROM golang:\S+ AS build)\n.*\n(FROM scratch\n.*)$`)
	binary = "COPY --from=build /out/lockproxy /lockproxy\n"
)

// imageFiles is the context of an image without the binaries. Its Dockerfile is that of the sources, whose
// first stage compiles nothing, and only lends the certificates of public authorities.
func (r version) imageFiles() ([]archiveFile, error) {
	text, err := os.ReadFile(filepath.Join(r.source, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	m := stages.FindSubmatch(text)
	// Better no release than an image whose Dockerfile was changed blindly.
	if m == nil || !bytes.Contains(m[2], []byte(binary)) {
		return nil, fmt.Errorf("Dockerfile: its stages are not as they were")
	}
	made := bytes.Replace(m[2], []byte(binary),
		[]byte("ARG TARGETARCH\nCOPY lockproxy-linux-${TARGETARCH} /lockproxy\n"), 1)
	head := "# From released binaries; BuildKit knows TARGETARCH.\n#\n" +
		"#\tdocker buildx build --platform linux/amd64,linux/arm64 -t lockproxy:" + r.version + " .\n\n"
	files := []archiveFile{{"Dockerfile", 0o644, []byte(head + string(m[1]) + "\n\n" + string(made))}}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		text, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return nil, err
		}
		files = append(files, archiveFile{name, 0o644, text})
	}
	return files, nil
}

// archive writes a tar.gz of a folder with these files: all of root, and all as old as the commit. Neither
// users nor times of this machine get into it, so two machines make the same bytes.
func (r version) archive(path, folder string, files []archiveFile) error {
	var all bytes.Buffer
	packed, err := gzip.NewWriterLevel(&all, r.level)
	if err != nil {
		return err
	}
	w := tar.NewWriter(packed)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: folder + "/" + f.name, Mode: f.mode,
			Size: int64(len(f.text)), ModTime: r.time, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.text); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, all.Bytes(), 0o644)
}

// writeSums writes SHA256SUMS, for `sha256sum --check`.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir) // by name
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(text), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), list.Bytes(), 0o644)
}
