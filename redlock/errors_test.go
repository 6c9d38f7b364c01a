package redlock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// What Redis says of a script's command is told without the script.
func TestSaid(t *testing.T) {
	const sha = "97e0031d6fb2899df2e6094d3f32fe11d3320527"
	for _, wrap := range []string{ // since 7.0; Valkey 9; before 7.0; behind pcall
		"%s script: " + sha + ", on @user_script:38.",
		"%s script: on @user_script:38.",
		"ERR Error running script (call to f_" + sha + "): @user_script:38: @user_script: 38: -%s ",
		"%s",
	} {
		full := Said(fmt.Sprintf(wrap, "OOM command not allowed when used memory > 'maxmemory'."))
		if !strings.HasPrefix(string(full), "OOM the Redis of this lock is at its maxmemory") {
			t.Errorf("%s: %s", wrap, full)
		}
		if !Refused(fmt.Errorf("127.0.0.1:6379: %w", full)) {
			t.Errorf("%s: something may have been made", wrap)
		}
		replicas := Said(fmt.Sprintf(wrap, "NOREPLICAS Not enough good replicas to write."))
		if strings.TrimSpace(string(replicas)) != "NOREPLICAS Not enough good replicas to write." {
			t.Errorf("%s: %q", wrap, replicas)
		}
	}
	const other = "LOCKTYPE the key holds a list"
	if err := Said(other); string(err) != other || !Refused(err) {
		t.Errorf("%s", err)
	}
	if Refused(errors.New("OOM")) {
		t.Error("an error that no server has said")
	}
}

// A server without EVALSHA or TIME: the error says so in words, and without EVALSHA nothing has run for
// certain.
func TestSaidWithoutScripts(t *testing.T) {
	for text, want := range map[string]ReplyError{
		"ERR unknown command 'EVALSHA', with args beginning with: 'fca1944e' '2' 'lock:{job}' ": noScripts,
		"ERR unknown command `EVALSHA`, with args beginning with: `fca1944e`, `2`, ":            noScripts,
		"ERR Unknown Redis command called from script script: 97e0, on @user_script:38.":        noTime,
		"ERR Unknown command called from script script: 97e0, on @user_script:38.":              noTime,
		"ERR Error running script (call to f_97e0031d6fb2899df2e6094d3f32fe11d3320527): @user_script:38: " +
			"@user_script: 38: Unknown Redis command called from Lua script ": noTime,
		"ERR The user executing the script can't run this command or subcommand script: 97e0, " +
			"on @user_script:38.": noTime,
	} {
		if got := Said(text); got != want || Refused(got) != (want == noScripts) {
			t.Errorf("%s: %s, refused: %v", text, got, Refused(got))
		}
	}
}
