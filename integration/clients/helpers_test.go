package clients

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// helper is the code of a page of docs/clients: a helper that takes a lock, and an example that uses it.
type helper struct {
	page, language string
	nth            int    // of the helpers of that page
	frame          string // a program, with HELPER and EXAMPLE where they belong
	run            runner
}

// program is what a user would write.
func (h helper) program(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/clients/" + h.page)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)\n```" + h.language + "\n(.*?\n)```\n")
	blocks := block.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 2*h.nth+2 {
		t.Fatalf("%s has %d blocks of %s", h.page, len(blocks), h.language)
	}
	code, example := blocks[2*h.nth][1], blocks[2*h.nth+1][1]
	if n := strings.Count(code, "\n"); n > 15 {
		t.Errorf("%s: the helper has %d lines", h.page, n)
	}
	if !strings.Contains(code+example, "6380") || !strings.Contains(code+example, "1000") {
		t.Fatalf("%s: the example does not wait 1000 ms at port 6380", h.page)
	}
	return strings.NewReplacer("HELPER\n", code, "EXAMPLE\n", example).Replace(h.frame)
}

// start begins to run a program whose work does what is sent to the pipe: it ends, or it fails.
func (h helper) start(t *testing.T, program string, at place) *running {
	t.Helper()
	r := &running{cmd: h.run(t, program, at), errors: &bytes.Buffer{}}
	r.cmd.Stderr = r.errors
	in, err := r.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatalf("%v (if something is missing: integration/install.sh)", err)
	}
	r.in, r.out = in, bufio.NewReader(out)
	return r
}

// running is such a program while it runs.
type running struct {
	cmd    *exec.Cmd
	in     io.Writer
	out    *bufio.Reader
	errors *bytes.Buffer
}

var working = regexp.MustCompile(`^working with fence [1-9]\d{15}\n$`)

// works waits until the program works under its lock.
func (r *running) works(t *testing.T) {
	t.Helper()
	if line, err := r.out.ReadString('\n'); !working.MatchString(line) {
		r.cmd.Wait()
		t.Fatalf("it prints %q, %v\n%s", line, err, r.errors)
	}
}

// ends waits for the program, which has to fail with that error, or with none.
func (r *running) ends(t *testing.T, word, want string) {
	t.Helper()
	io.WriteString(r.in, word+"\n")
	rest, _ := io.ReadAll(r.out)
	err := r.cmd.Wait()
	if len(rest) > 0 || (err != nil) != (want != "") || !regexp.MustCompile(want).Match(r.errors.Bytes()) {
		t.Errorf("it prints %q and ends with %v, want %q\n%s", rest, err, want, r.errors)
	}
}

// try runs the program while its lock is free, while others hold it, and while it is taken away.
func (h helper) try(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.StartRedis(t).Addr)
	program, at := h.program(t), placeOf(p)
	other := rig.Connect(t, p.Addr)
	free := func() {
		t.Helper()
		if v := other.Must(t, "LOCK", "report", "TOKEN", "other", "EX", "1800"); v.Null {
			t.Fatal("the lock is not free")
		}
	}
	free()
	h.start(t, program, at).ends(t, "end", "others hold report")

	at.wait = "100000"
	r := h.start(t, program, at)
	rig.Eventually(t, rig.Patience, "it waits for the lock", func() bool {
		_, waiters := rig.LockInfo(t, p.Addr, "report")
		return waiters == 1
	})
	other.Must(t, "UNLOCK", "report", "other")
	r.works(t)
	if v := other.Must(t, "LOCK", "report"); !v.Null {
		t.Errorf("while it works another one is granted %s", v)
	}
	r.ends(t, "end", "")
	free()
	other.Must(t, "UNLOCK", "report", "other")

	r = h.start(t, program, at)
	r.works(t)
	r.ends(t, "fail", "the work failed")
	free()
	other.Must(t, "UNLOCK", "report", "other")

	r = h.start(t, program, at)
	r.works(t)
	other.Must(t, "LOCKCTL", "BREAK", "report")
	r.ends(t, "end", "the lock report was lost|redis nil message")
}

const pythonFrame = `import asyncio, contextlib, secrets, sys
HELPER
def work(fence):
    print("working with fence", fence, flush=True)
    if sys.stdin.readline() == "fail\n":
        raise RuntimeError("the work failed")
EXAMPLE
`

func TestHelperRedisPy(t *testing.T) {
	helper{"redis-py.md", "python", 0, pythonFrame, by("python3", ".py")}.try(t)
}

func TestHelperRedisPyAsyncio(t *testing.T) {
	frame := strings.Replace(pythonFrame, "def work", "async def work", 1)
	helper{"redis-py.md", "python", 1, frame, by("python3", ".py")}.try(t)
}

const nodeFrame = `HELPER
const work = (fence) => new Promise((done, fail) => {
  console.log('working with fence', fence);
  process.stdin.once('data', (word) => {
    process.stdin.destroy();
    if (String(word) === 'fail\n') fail(new Error('the work failed')); else done();
  });
});
EXAMPLE
`

func TestHelperIoredis(t *testing.T) {
	if env, ok := nodeModules(t); ok {
		helper{"ioredis.md", "js", 0, nodeFrame, by("node", ".js", env...)}.try(t)
	}
}

func TestHelperNodeRedis(t *testing.T) {
	if env, ok := nodeModules(t); ok {
		helper{"node-redis.md", "js", 0, nodeFrame, by("node", ".js", env...)}.try(t)
	}
}

const goFrame = `package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	LIBRARY
)

var _ = time.Minute

HELPER
func work(fence int64) error {
	fmt.Println("working with fence", fence)
	var word string
	if fmt.Scanln(&word); word == "fail" {
		return errors.New("the work failed")
	}
	return nil
}

func example(ctx context.Context) error {
EXAMPLE
}

func main() {
	if err := example(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
` + patience

func TestHelperGoRedis(t *testing.T) {
	frame := strings.Replace(goFrame, "LIBRARY", `"github.com/redis/go-redis/v9"`, 1)
	helper{"go-redis.md", "go", 0, frame, inGo}.try(t)
}

func TestHelperRueidis(t *testing.T) {
	frame := strings.Replace(goFrame, "LIBRARY", `"github.com/redis/rueidis"`, 1)
	helper{"rueidis.md", "go", 0, frame, inGo}.try(t)
}

func TestHelperRedisRb(t *testing.T) {
	const frame = `require "redis"
require "securerandom"
$stdout.sync = true
HELPER
def work(fence)
  puts "working with fence #{fence}"
  raise "the work failed" if gets == "fail\n"
end
EXAMPLE
`
	helper{"redis-rb.md", "ruby", 0, frame, by("ruby", ".rb")}.try(t)
}

func TestHelperPhpredis(t *testing.T) {
	const frame = `<?php
ini_set('display_errors', 'stderr');
HELPER
function work($fence) {
    echo "working with fence $fence\n";
    if (fgets(STDIN) === "fail\n") throw new RuntimeException('the work failed');
}
EXAMPLE
`
	helper{"phpredis.md", "php", 0, frame, by("php", ".php")}.try(t)
}

func TestHelperPerl(t *testing.T) {
	const frame = `use strict;
use warnings;
$| = 1;
HELPER
sub work {
    my ($fence) = @_;
    print "working with fence $fence\n";
    die "the work failed\n" if <STDIN> eq "fail\n";
}
EXAMPLE
`
	helper{"perl.md", "perl", 0, frame, by("perl", ".pl")}.try(t)
}

func TestHelperHiredis(t *testing.T) {
	const frame = `#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

HELPER
static int work(long long fence) {
    char word[16] = "";
    printf("working with fence %lld\n", fence);
    fflush(stdout);
    if (fgets(word, sizeof word, stdin) != NULL && strcmp(word, "fail\n") == 0) {
        fprintf(stderr, "the work failed\n");
        return 3;
    }
    return 0;
}

int main(void) {
EXAMPLE
}
`
	helper{"hiredis.md", "c", 0, frame, inC}.try(t)
}

func TestHelperBash(t *testing.T) {
	const frame = `HELPER
work() {
    local word
    echo "working with fence $FENCE"
    read -r word
    [[ $word != fail ]] || { echo "the work failed" >&2; return 3; }
}
EXAMPLE
`
	helper{"bash.md", "bash", 0, frame, by("bash", ".sh")}.try(t)
}

const javaFrame = `import java.util.*;
import java.util.function.Function;
import redis.clients.jedis.*;
import redis.clients.jedis.commands.ProtocolCommand;

class Main {
HELPER
    static String work(long fence) {
        System.out.println("working with fence " + fence);
        if (new Scanner(System.in).nextLine().equals("fail")) throw new RuntimeException("the work failed");
        return "done";
    }

    public static void main(String[] args) {
EXAMPLE
    }
}
`

func TestHelperJedis(t *testing.T) {
	helper{"jedis.md", "java", 0, javaFrame, inJava}.try(t)
}
