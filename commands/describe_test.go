package commands_test

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"lockproxy/internal/resp"

	"github.com/alicebob/miniredis/v2"
)

// Small replies of a server that has a LOCK of its own, which ours hides.
const (
	smallTable2 = "*2\r\n*10\r\n$3\r\nget\r\n:2\r\n*0\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n*6\r\n" +
		"$4\r\nLOCK\r\n:1\r\n*0\r\n:0\r\n:0\r\n:0\r\n"
	smallDocs2 = "*4\r\n$3\r\nget\r\n*2\r\n$7\r\nsummary\r\n$1\r\nx\r\n$4\r\nlock\r\n*2\r\n$7\r\n" +
		"summary\r\n$1\r\ny\r\n"
	smallDocs3 = "%2\r\n$3\r\nget\r\n%1\r\n$7\r\nsummary\r\n$1\r\nx\r\n$4\r\nlock\r\n%1\r\n$7\r\n" +
		"summary\r\n$1\r\ny\r\n"
)

// golden compares with a file of testdata, which holds the bytes with CRLF as LF.
func golden(t *testing.T, name, got string) {
	t.Helper()
	readable := strings.ReplaceAll(got, "\r\n", "\n")
	want, err := os.ReadFile("testdata/" + name)
	if err != nil || readable != string(want) {
		t.Errorf("%s differs:\n%s", name, readable)
	}
}

// redis-cli asserts these types and aborts when one is wrong: the bytes are held.
func TestVerbsInCommand(t *testing.T) {
	for _, proto := range []string{"2", "3"} {
		small := map[string]string{"COMMAND": smallTable2, "COMMAND DOCS": smallDocs2}
		if proto == "3" {
			small["COMMAND DOCS"] = smallDocs3
		}
		f := newSession(t, func(args []string) string {
			if len(args) > 2 {
				args = args[:2]
			}
			return small[strings.Join(args, " ")]
		})
		f.Table = redis7(t, sampleVerbs()...)
		f.User.Proto = int(proto[0] - '0')
		golden(t, "command-resp"+proto+".golden", f.Do("COMMAND"))
		golden(t, "docs-resp"+proto+".golden", f.Do("COMMAND DOCS"))
		if got := f.Do("COMMAND DOCS get lock"); got != f.Do("COMMAND DOCS get LOCK") ||
			!strings.HasPrefix(got, small["COMMAND DOCS"][:2]) {
			t.Errorf("%q", got)
		}
		one := f.Do("COMMAND DOCS lockctl")
		if whole := f.Do("COMMAND DOCS"); !strings.HasSuffix(whole, one[4:]) || len(f.Sent) != 1 {
			t.Errorf("%q is not in %q", one, whole)
		}
	}
}

// With the whole tables of Redis 7 everything of theirs stays as it is.
func TestWholeTableStays(t *testing.T) {
	for _, c := range [][2]string{{"COMMAND", "command-7.0.15.resp"}, {"COMMAND DOCS", "docs-7.0.15.resp"},
		{"COMMAND INFO", "command-7.0.15.resp"}} {
		theirs := string(testdata(t, c[1]))
		f := newSession(t, saying(theirs))
		if got := f.Do(c[0]); got != theirs {
			t.Errorf("%s without verbs differs", c[0])
		}
		f.Table = redis7(t, sampleVerbs()...)
		_, body, _ := strings.Cut(theirs, "\r\n")
		if got := f.Do(c[0]); !strings.Contains(got, body) {
			t.Errorf("%s with verbs differs", c[0])
		}
	}
}

func TestCommandInfo(t *testing.T) {
	f := newSession(t, saying("*4\r\n*-1\r\n*1\r\n$3\r\nget\r\n*-1\r\n*-1\r\n"))
	f.Table = redis7(t, sampleVerbs()...)
	got, _ := resp.Elements([]byte(f.Do("COMMAND INFO Lock get nosuch lockctl|info")))
	if len(got) != 4 || !strings.HasPrefix(string(got[0]), "*10\r\n$4\r\nlock\r\n:-2\r\n*3\r\n+write\r\n") ||
		string(got[1]) != "*1\r\n$3\r\nget\r\n" ||
		string(got[2]) != "*-1\r\n" ||
		!strings.HasPrefix(string(got[3]), "*10\r\n$12\r\nlockctl|info\r\n:3\r\n*2\r\n+readonly\r\n") {
		t.Errorf("%q", got)
	}
}

// Who goes by the positions of keys alone is told where there is more.
func TestMovableKeys(t *testing.T) {
	verbs := sampleVerbs()
	verbs[0].Keys[0].Counted = true
	f := newSession(t, saying("*1\r\n*-1\r\n"))
	f.Table = redis7(t, verbs...)
	if got := f.Do("COMMAND INFO lock"); !strings.Contains(got, "+movablekeys\r\n") {
		t.Errorf("%q", got)
	}
}

func TestCommandOnVerbs(t *testing.T) {
	f := newSession(t, saying("*1\r\n$3\r\nget\r\n"))
	f.Table = redis7(t, sampleVerbs()...)
	for line, want := range map[string]string{
		"COMMAND COUNT":                      ":242\r\n",
		"COMMAND GETKEYS LOCK job PX 1":      "*1\r\n$3\r\njob\r\n",
		"COMMAND GETKEYS lockctl info job":   "*1\r\n$3\r\njob\r\n",
		"COMMAND GETKEYS LOCKCTL HELP":       "-ERR The command has no key arguments\r\n",
		"COMMAND GETKEYS LOCK":               "-ERR Invalid number of arguments specified for command\r\n",
		"COMMAND GETKEYS LOCKCTL INFO a b":   "-ERR Invalid number of arguments specified for command\r\n",
		"COMMAND GETKEYSANDFLAGS LOCK job":   "*1\r\n*2\r\n$3\r\njob\r\n*3\r\n+RW\r\n+access\r\n+update\r\n",
		"COMMAND LIST FILTERBY PATTERN l?ck": "*2\r\n$3\r\nget\r\n$4\r\nlock\r\n",
		"COMMAND LIST FILTERBY ACLCAT lock":  "*3\r\n$3\r\nget\r\n$4\r\nlock\r\n$7\r\nlockctl\r\n",
		"COMMAND LIST FILTERBY ACLCAT read":  "*1\r\n$3\r\nget\r\n",
		"COMMAND LIST FILTERBY MODULE lock":  "*1\r\n$3\r\nget\r\n",
		"ACL CAT":                            "*2\r\n$3\r\nget\r\n$4\r\nlock\r\n",
		"ACL CAT lock":                       "*2\r\n$4\r\nlock\r\n$7\r\nlockctl\r\n",
		"ACL CAT read":                       "*1\r\n$3\r\nget\r\n",
		"COMMAND GETKEYS get k":              "*1\r\n$3\r\nget\r\n",
	} {
		if got := f.Do(line); got != want {
			t.Errorf("%s: %q", line, got)
		}
	}
	names, _ := resp.Elements([]byte(f.Do("COMMAND LIST")))
	for _, want := range []string{"lock", "lockctl|info", "get", "client|list"} {
		if !slices.ContainsFunc(names, func(b []byte) bool { return textOfBulk(b) == want }) {
			t.Errorf("%s is not among %d names", want, len(names))
		}
	}
}

// A server older than 7.0, or the one in memory, documents nothing.
func TestCommandOfOldServers(t *testing.T) {
	conn, err := net.Dial("tcp", miniredis.RunT(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f := newSession(t, func(args []string) string {
		return string(exchange(t, conn,
			args...))
	})
	f.Table = miniRedis(t, sampleVerbs()...)
	docs, _ := resp.Elements([]byte(f.Do("COMMAND DOCS")))
	if len(docs) != 4 || textOfBulk(docs[0]) != "lock" || textOfBulk(docs[2]) != "lockctl" {
		t.Errorf("%q", docs)
	}
	if got := f.Do("COMMAND DOCS get"); got != "*0\r\n" {
		t.Errorf("%q", got)
	}
	all, _ := resp.Elements([]byte(f.Do("COMMAND")))
	if count := f.Do("COMMAND COUNT"); len(all) != 202 || count != ":202\r\n" {
		t.Errorf("%d commands, %q", len(all), count)
	}
	info, _ := resp.Elements([]byte(f.Do("COMMAND INFO get lock")))
	if len(info) != 2 || !strings.HasPrefix(string(info[0]), "*6\r\n$3\r\nget\r\n:2\r\n") ||
		!strings.HasPrefix(string(info[1]), "*10\r\n$4\r\nlock\r\n") {
		t.Errorf("%q", info)
	}
}

func textOfBulk(elem []byte) string {
	v, _, _ := resp.Parse(elem)
	return v.Text()
}
