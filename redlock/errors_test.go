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
