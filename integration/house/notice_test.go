package house

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const noticeHead = `lockproxy
Copyright 2026 the lockproxy authors

lockproxy is licensed under the Apache License, Version 2.0: see LICENSE.

The program contains what follows. Each text is the one that its authors publish with it. What only
the tests use is not part of the program.
`

// NOTICE has the licence of everything that is linked into the program, word for word.
func TestNotice(t *testing.T) {
	const page = "../../NOTICE"
	want := notice(t)
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || !bytes.Equal(got, want) {
		t.Errorf("NOTICE is not what is linked (%v): go test ./integration/house -run Notice -update", err)
	}
}

// notice is the text of NOTICE as the modules in the program have it.
func notice(t *testing.T) []byte {
	list := exec.Command("go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/lockproxy")
	list.Dir, list.Env = "../..", append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	const sys = "golang.org/x/sys " // its licence is that of Go, which not every installation has at hand
	text := bytes.NewBufferString(noticeHead)
	modules := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(modules)
	for _, module := range slices.Compact(modules) {
		name, dir, _ := strings.Cut(module, "\t")
		if strings.HasPrefix(name, sys) {
			name = "Go, its runtime and its libraries, and " + name
		}
		fmt.Fprintf(text, "\n%s\n%s\n\n%s\n", strings.Repeat("-", 80), name, licenceIn(t, dir))
	}
	return text.Bytes()
}

// licenceIn is the text of the licence, and of the notice if there is one, of a module in dir.
func licenceIn(t *testing.T, dir string) string {
	var texts []string
	for _, pattern := range []string{"LICEN[CS]E*", "NOTICE*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
		}
	}
	if len(texts) == 0 {
		t.Errorf("%s has no licence", dir)
	}
	return strings.Join(texts, "\n\n")
}
