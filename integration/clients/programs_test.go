package clients

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// place is where a program finds the proxy, and for how many ms it waits for its lock.
type place struct{ port, wait string }

// placeOf is the place of a program that waits as long as the pages say.
func placeOf(p *rig.Proxy) place {
	_, port, _ := strings.Cut(p.Addr, ":")
	return place{port, "1000"}
}

// runner is a language: it makes a command of a program of the pages. They name port 6380 and a wait of
// 1000 ms, in whose place others come.
type runner func(t *testing.T, program string, at place) *exec.Cmd

// by runs a program with an interpreter.
func by(name, suffix string, env ...string) runner {
	return func(t *testing.T, program string, at place) *exec.Cmd {
		t.Helper()
		program = strings.NewReplacer("6380", at.port, "1000", at.wait).Replace(program)
		file := rig.WriteFile(t, "example"+suffix, program)
		cmd := exec.CommandContext(t.Context(), interpreter(name), file)
		cmd.Env = append(os.Environ(), env...)
		return cmd
	}
}

// compiled runs what build makes, which takes the port and the wait from its environment, so that it is
// compiled once: found are their places in the pages, each with an expression of the language.
func compiled(build func(t *testing.T, program string) (command []string), found ...string) runner {
	return func(t *testing.T, program string, at place) *exec.Cmd {
		t.Helper()
		command := build(t, strings.NewReplacer(found...).Replace(program))
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:"+at.port, "PORT="+at.port, "WAIT="+at.wait)
		return cmd
	}
}

// kept is a directory of the user's cache in which make has made something, in this run or an earlier one.
// key has all that it is made of.
func kept(t *testing.T, key string, make func(dir string) *exec.Cmd) (dir string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	all := filepath.Join(cache, "lockproxy-tests", "clients")
	dir = filepath.Join(all, fmt.Sprintf("%x", sha256.Sum256([]byte(key)))[:32])
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(all, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(all, "making-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	build := make(fresh)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v (if something is missing: integration/install.sh)\n%s", build, err, out)
	}
	if err := os.Rename(fresh, dir); err != nil { // another one may have been faster
		if _, gone := os.Stat(dir); gone != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// identity is which program of that name this machine has.
func identity(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatalf("%v: integration/install.sh installs it", err)
	}
	file, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(path, file.Size(), file.ModTime())
}

// textOf are the contents of files.
func textOf(t *testing.T, patterns ...string) (all string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no file is called %s, %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all += file + string(text)
		}
	}
	return all
}

// inGo builds a program with the libraries of this module.
var inGo = compiled(func(t *testing.T, program string) []string {
	key := runtime.Version() + textOf(t, "../../go.mod", "../../go.sum") + program
	return []string{filepath.Join(kept(t, key, func(dir string) *exec.Cmd {
		return exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "program"),
			rig.WriteFile(t, "example.go", program))
	}), "program")}
}, `"127.0.0.1:6380"`, `os.Getenv("ADDR")`, `"1000"`, `os.Getenv("WAIT")`, "1000", "patience()")

// patience is for programs that want a number.
const patience = `
func patience() int {
	n, err := strconv.Atoi(os.Getenv("WAIT"))
	if err != nil {
		panic(err)
	}
	return n
}
`

// inC builds a program with hiredis, which takes a moment: that it compiles here is a part of the test.
var inC = compiled(func(t *testing.T, program string) []string {
	return []string{compileC(t, rig.WriteFile(t, "example.c", program))}
}, "6380", `atoi(getenv("PORT"))`, "1000", `atoi(getenv("WAIT"))`)

func compileC(t *testing.T, file string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "program")
	build := exec.Command("cc", "-Wall", "-Werror", "-I/opt/homebrew/include", "-I/usr/local/include", "-o",
		program, file, "-L/opt/homebrew/lib", "-L/usr/local/lib", "-lhiredis")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v (if hiredis is missing: integration/install.sh)\n%s", build, err, out)
	}
	return program
}

// inJava builds a program beside stand-ins for the classes of Jedis, which no system here has as a package.
var inJava = compiled(func(t *testing.T, program string) []string {
	const sources = "testdata/clients/java"
	key := identity(t, "javac") + program +
		textOf(t, sources+"/redis/clients/jedis/*.java", sources+"/redis/clients/jedis/*/*.java")
	classes := kept(t, key, func(dir string) *exec.Cmd {
		file := rig.WriteFile(t, "example.java", program)
		return exec.Command("javac", "-d", dir, "-sourcepath", sources, file)
	})
	// A virtual machine that runs for a moment need not get ready for more.
	return []string{"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classes, "Main"}
}, "6380", `Integer.parseInt(System.getenv("PORT"))`, `"1000"`, `System.getenv("WAIT")`,
	"1000", `Integer.parseInt(System.getenv("WAIT"))`)
