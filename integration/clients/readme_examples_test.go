package clients

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// example returns the block of README in a language.
func example(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```"+language+"\n")
	code, _, ended := strings.Cut(rest, "\n```")
	if !found || !ended || !strings.Contains(code, "6380") {
		t.Fatalf("README has no example in %s for port 6380", language)
	}
	return code
}

// tryExample runs a program twice: while the lock of the example is free, and while others hold it.
func tryExample(t *testing.T, program string, by runner) {
	t.Helper()
	p := rig.StartProxy(t, "--dev")
	run := func() string {
		t.Helper()
		cmd := by(t, program, placeOf(p))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v (if a library is missing: integration/install.sh)\n%s\n%s", cmd, err, out,
				program)
		}
		return string(out)
	}
	if out := run(); !regexp.MustCompile(`^working with fence [1-9]\d{15}\n$`).MatchString(out) {
		t.Errorf("it prints %q", out)
	}
	if v := rig.Connect(t, p.Addr).Must(t, "LOCK", "report", "TOKEN", "other", "EX", "1800"); v.Null {
		t.Error("the example has not freed its lock")
	}
	if out := run(); out != "" {
		t.Errorf("it prints %q while others hold the lock", out)
	}
}

func TestReadmeExamplePython(t *testing.T) {
	t.Parallel()
	tryExample(t, example(t, "python"), by("python3", ".py"))
}

func TestReadmeExampleGo(t *testing.T) {
	t.Parallel()
	tryExample(t, `package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/redis/go-redis/v9"
)

func main() {
	if err := work(context.Background()); err != nil {
		panic(err)
	}
}

func work(ctx context.Context) error {
`+example(t, "go")+`
	return nil
}
`+patience, inGo)
}

func TestReadmeExampleNode(t *testing.T) {
	t.Parallel()
	if env, ok := nodeModules(t); ok {
		tryExample(t, "const { createClient } = require('redis');\n(async () => {\n"+example(t, "js")+
			"\nawait r.close();\n})();\n", by("node", ".js", env...))
	}
}

func TestReadmeExampleJava(t *testing.T) {
	t.Parallel()
	code := strings.NewReplacer("HELPER\n", "", "EXAMPLE\n", example(t, "java")+"\n").Replace(javaFrame)
	tryExample(t, code, inJava)
}
