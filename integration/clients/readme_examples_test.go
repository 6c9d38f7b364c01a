package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// example returns the block of README in a language, with the address of the proxy in place of the one there.
func example(t *testing.T, language string, p *rig.Proxy) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```"+language+"\n")
	code, _, ended := strings.Cut(rest, "\n```")
	_, port, _ := strings.Cut(p.Addr, ":")
	if !found || !ended || !strings.Contains(code, "6380") {
		t.Fatalf("README has no example in %s for port 6380", language)
	}
	return strings.ReplaceAll(code, "6380", port)
}

// tryExample runs a program twice: while the lock of the example is free, and while others hold it.
func tryExample(t *testing.T, p *rig.Proxy, program string, env []string, name string, args ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "example"+filepath.Ext(args[len(args)-1]))
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	args[len(args)-1] = file
	run := func() string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v (if a library is missing: integration/install.sh)\n%s\n%s", name,
				err, out, program)
		}
		return string(out)
	}
	if out := run(); !regexp.MustCompile(`^working with fence [1-9]\d{15}\n$`).MatchString(out) {
		t.Errorf("%s prints %q", name, out)
	}
	if v := rig.Connect(t, p.Addr).Must(t, "LOCK", "report", "TOKEN", "other"); v.Null {
		t.Errorf("the example for %s has not freed its lock", name)
	}
	if out := run(); out != "" {
		t.Errorf("%s prints %q while others hold the lock", name, out)
	}
}

func TestReadmeExamplePython(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--dev")
	tryExample(t, p, example(t, "python", p), nil, interpreter("python3"), ".py")
}

func TestReadmeExampleGo(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--dev")
	program := `package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

func main() {
	if err := work(context.Background()); err != nil {
		panic(err)
	}
}

func work(ctx context.Context) error {
` + example(t, "go", p) + `
	return nil
}
`
	tryExample(t, p, program, nil, "go", "run", ".go")
}

func TestReadmeExampleNode(t *testing.T) {
	t.Parallel()
	env, ok := nodeModules(t)
	if !ok {
		return
	}
	p := rig.StartProxy(t, "--dev")
	program := "const { createClient } = require('redis');\n(async () => {\n" + example(t, "js", p) +
		"\nawait r.close();\n})();\n"
	tryExample(t, p, program, env, "node", ".js")
}

func TestReadmeExampleJava(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--dev")
	file := filepath.Join(t.TempDir(), "example.java")
	program := strings.NewReplacer("HELPER\n", "", "EXAMPLE\n", example(t, "java", p)+"\n").Replace(javaFrame)
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := java(t, file)
	tryExample(t, p, program, nil, cmd.Path, append(cmd.Args[1:], ".java")...)
}
