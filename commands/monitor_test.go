package commands_test

import (
	"crypto/sha1"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/commands"
	"lockproxy/commands/lock"
	"lockproxy/commands/monitorline"
)

func TestMonitorLine(t *testing.T) {
	verbs := lock.Verbs(lock.Lockers{})
	table := redis7(t, verbs...)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"keys", "*"}, `"keys" "*"`},
		{[]string{"SET", "k", "a\"b\\c\r\n\t\a\b\x00\x7f\xff'~ "},
			`"SET" "k" "a\"b\\c\r\n\t\a\b\x00\x7f\xff'~ "`},
		{[]string{"ECHO", ""}, `"ECHO" ""`},
		{[]string{"auth", "p"}, `"auth" "(redacted)"`},
		{[]string{"AUTH", "u", "p"}, `"AUTH" "(redacted)" "(redacted)"`},
		{[]string{"HELLO", "3", "SETNAME", "auth", "AUTH", "u", "p", "SETNAME", "x"},
			`"HELLO" "3" "SETNAME" "auth" "AUTH" "(redacted)" "(redacted)" "SETNAME" "x"`},
		{[]string{"HELLO", "3", "AUTH", "u"}, `"HELLO" "3" "AUTH" "(redacted)"`},
		{[]string{"MIGRATE", "h", "1", "", "0", "5", "COPY", "auth2", "u", "p", "KEYS", "k"},
			`"MIGRATE" "h" "1" "" "0" "5" "COPY" "auth2" "(redacted)" "(redacted)" "KEYS" "k"`},
		{[]string{"MIGRATE", "h", "1", "k", "0", "5", "AUTH", "p"},
			`"MIGRATE" "h" "1" "k" "0" "5" "AUTH" "(redacted)"`},
		{[]string{"LOCK", "l", "TOKEN", "t", "PX", "5", "META", "m"},
			`"LOCK" "l" "TOKEN" "(redacted)" "PX" "5" "META" "m"`},
		{[]string{"RLOCK", "l", "oops", "WAIT", "5"}, `"RLOCK" "l" "(redacted)" "WAIT" "5"`},
		{[]string{"UNLOCK", "l", "t"}, `"UNLOCK" "l" "(redacted)"`},
		{[]string{"UNLOCK", "l", "fence", "7", "t"}, `"UNLOCK" "l" "fence" "7" "(redacted)"`},
		{[]string{"renew", "l", "token", "t", "ex", "5", "KEEPALIVE"},
			`"renew" "l" "token" "(redacted)" "ex" "5" "KEEPALIVE"`},
		{[]string{"LOCKCTL", "check", "l", "t"}, `"LOCKCTL" "check" "l" "(redacted)"`},
		{[]string{"LOCKCTL", "INFO", "l"}, `"LOCKCTL" "INFO" "l"`},
	} {
		args := make([][]byte, len(test.args))
		for i, arg := range test.args {
			args[i] = []byte(arg)
		}
		cmd, _ := table.Resolve(args)
		line := string(monitorline.AppendCall(monitorline.AppendTime(nil,
			time.Unix(1339518083, 7412999)), &commands.Client{Addr: "127.0.0.1:60866", DB: 2}, cmd, args))
		if want := "+1339518083.007412 [2 127.0.0.1:60866] " + test.want + "\r\n"; line != want {
			t.Errorf("\n got %s\nwant %s", line, want)
		}
	}
	line := string(monitorline.AppendCall(nil,
		&commands.Client{Addr: "/s.sock:0", LocalAddr: "/s.sock:0", Unix: true}, table.Lookup([]byte("ping")),
		wordsOf("PING")))
	if line != "[0 unix:/s.sock] \"PING\"\r\n" {
		t.Errorf("over a unix socket: %s", line)
	}
}

// Of a long command a line has the beginning, and none of it is a secret.
func TestMonitorLineOfLongCommands(t *testing.T) {
	table := redis7(t, lock.Verbs(lock.Lockers{})...)
	const monitorArgs, monitorArg = 128, 4 << 10
	long := strings.Repeat("x", monitorArg)
	words := func(n int) []string { return strings.Fields("UNLOCK l" + strings.Repeat(" t", n-2)) }
	hidden := strings.Repeat(` "(redacted)"`, monitorArgs-3)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"ECHO", long}, `"ECHO" "` + long + `"`},
		{[]string{"ECHO", long + "yyy"}, `"ECHO" "` + long + `... (3 more bytes)"`},
		{[]string{"AUTH", long + "yyy"}, `"AUTH" "(redacted)"`},
		{words(monitorArgs), `"UNLOCK" "l"` + hidden + ` "(redacted)"`},
		{words(1_000_000), `"UNLOCK" "l"` + hidden + ` "... (999873 more arguments)"`},
	} {
		args := make([][]byte, len(test.args))
		for i, arg := range test.args {
			args[i] = []byte(arg)
		}
		cmd, _ := table.Resolve(args)
		line := string(monitorline.AppendCall(nil, &commands.Client{Addr: "a:1"}, cmd, args))
		if want := "[0 a:1] " + test.want + "\r\n"; line != want {
			t.Errorf("%.60s: %d bytes, want %d: ...%s", args[0], len(line), len(want),
				line[max(len(line)-60, 0):])
		}
	}
}

func TestShownByMonitor(t *testing.T) {
	table := redis7(t, lock.Verbs(lock.Lockers{})...)
	for line, want := range map[string]bool{
		"GET k": true, "EVAL x 0": true, "FCALL f 0": true, "AUTH x": true, "CLIENT SETNAME x": true,
		"CLIENT ID": true, "INFO": true, "LOCK l": true, "EXEC": true,
		"CLIENT LIST": false, "CLIENT KILL x": false, "CONFIG GET x": false, "MONITOR": false,
		"ACL SETUSER x": false, "SLOWLOG GET": false, "DEBUG SLEEP 1": false, "LOCKCTL BREAK l": false,
	} {
		if cmd, _ := table.Resolve(wordsOf(line)); monitorline.Shows(cmd) != want {
			t.Errorf("%s is shown: %v", line, !want)
		}
	}
}

// EXEC of Redis 6 has the flag that hides it, and is shown all the same.
func TestExecOfRedis6IsShown(t *testing.T) {
	exec := &commands.Command{Row: commands.Row{Flags: commands.RunsQueue | commands.SkipMonitor}}
	if !monitorline.Shows(exec) {
		t.Error("EXEC is not shown")
	}
}

func TestMayWrite(t *testing.T) {
	table := redis7(t, lock.Verbs(lock.Lockers{})...)
	scripts := commands.NewScripts(10)
	reads, writes := "#!lua flags=no-writes\nreturn 1", "return redis.call('set', 'k', 1)"
	scripts.Add([]byte(reads))
	scripts.Add([]byte(writes))
	sha := func(source string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(source))) }
	for _, test := range []struct {
		args   []string
		writes bool
	}{
		{[]string{"GET", "k"}, false},
		{[]string{"SET", "k", "v"}, true},
		{[]string{"PFCOUNT", "k"}, true},
		{[]string{"EXEC"}, false},
		{[]string{"EVAL", writes, "0"}, true},
		{[]string{"EVAL", reads, "0"}, false},
		{[]string{"EVAL", "#!lua\nreturn 1", "0"}, true},
		{[]string{"EVAL", "#!lua flags=allow-stale,no-writes\nreturn 1", "0"}, false},
		{[]string{"EVAL", "#!lua flags=allow-oom\nreturn 1", "0"}, true},
		// what Redis refuses it is left to refuse later
		{[]string{"EVAL", "#!lua name=x flags=no-writes\nreturn 1", "0"}, true},
		{[]string{"EVAL", "#!lua flags=no-writes", "0"}, true},
		{[]string{"EVAL", " #!lua flags=no-writes\nreturn 1", "0"}, true},
		{[]string{"EVAL", "#!js flags=no-writes\nreturn 1", "0"}, true},
		{[]string{"EVAL", "", "0"}, true},
		{[]string{"EVAL_RO", writes, "0"}, false},
		{[]string{"EVAL_RO", "#!lua\nreturn 1", "0"}, true},
		{[]string{"EVALSHA", sha(reads), "0"}, false},
		{[]string{"EVALSHA", strings.ToUpper(sha(reads)), "0"}, false},
		{[]string{"EVALSHA", sha(writes), "0"}, true},
		{[]string{"EVALSHA", strings.Repeat("0", 40), "0"}, true},
		{[]string{"EVALSHA_RO", sha(writes), "0"}, false},
		{[]string{"FCALL", "f", "0"}, true},
		{[]string{"FCALL_RO", "f", "0"}, false},
		{[]string{"LOCK", "l"}, true},
		{[]string{"LOCKCTL", "INFO", "l"}, false},
		{[]string{"LOCKCTL", "BREAK", "l"}, true},
	} {
		args := make([][]byte, len(test.args))
		for i, arg := range test.args {
			args[i] = []byte(arg)
		}
		cmd, _ := table.Resolve(args)
		if got, _ := cmd.MayWrite(args, commands.Transaction{}, scripts); got != test.writes {
			t.Errorf("%q may write: %v", test.args, got)
		}
	}
	for _, tx := range []commands.Transaction{{}, {Open: true}, {Open: true, Writes: true}} {
		if got, _ := table.Lookup([]byte("exec")).MayWrite(wordsOf("EXEC"), tx,
			scripts); got != tx.Writes {
			t.Errorf("EXEC of %+v may write: %v", tx, got)
		}
	}
}

func TestMeetsData(t *testing.T) {
	table := redis7(t, lock.Verbs(lock.Lockers{})...)
	for line, want := range map[string]bool{
		"GET k": true, "SET k v": true, "PUBLISH a b": true, "EVAL x 0": true, "DBSIZE": true, "SCAN 0": true,
		"KEYS *": true, "LOCK l": true, "LOCKCTL LIST": true,
		"TIME": false, "PING": false, "INFO": false, "COMMAND": false, "SCRIPT EXISTS x": false,
		"SLOWLOG GET": false, "CLIENT LIST": false, "MONITOR": false, "LOLWUT": true,
	} {
		if cmd, _ := table.Resolve(wordsOf(line)); cmd.MeetsData() != want {
			t.Errorf("%s meets data: %v", line, !want)
		}
	}
}
