//go:build !quick

package scripts_test

import (
	"strings"
	"testing"

	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// A plain lock becomes a hash also at a server that lets no script name a key that is not there: by one
// command, with all that it was. The source of a slot that moves is such a server. Here the user may
// neither ask for types nor delete, which looks the same to the script. R2
func TestPlainLockAtTheSource(t *testing.T) {
	s := rig.StartRedis(t)
	l := &teller{t: t, s: s, c: s.Connect()}
	defer l.c.Close()
	for _, token := range []string{"a", strings.Repeat("long", 20)} {
		s.Ask("DEL", rig.LockKey)
		ask := func(id string) string {
			return textOf(l.run(scripts.Acquire, []string{rig.LockKey, fenceKey},
				"lockproxy 1 1000000000000001 +"+id+" "+token, "60001", "w", "1", "", "", "", ""))
		}
		l.run(scripts.Acquire, []string{rig.LockKey, fenceKey},
			"lockproxy 1 1000000000000001 +i1 "+token, "60001")
		before := s.Ask("GET", rig.LockKey).Text()
		s.Ask("ACL", "SETUSER", "default", "-type", "-del")
		got := ask("i2")
		s.Ask("ACL", "SETUSER", "default", "+type", "+del")
		fields := map[string]string{}
		all := s.Ask("HGETALL", rig.LockKey).Elems
		for i := 0; i+1 < len(all); i += 2 {
			fields[all[i].Text()] = all[i+1].Text()
		}
		hold := strings.Fields(fields["w"])
		if len(hold) != 6 || fields["o"] != token || fields["v"] != "1" ||
			hold[1] != "2" || hold[5] != "+i1+i2" {
			t.Errorf("%q became %v, answered %s", before, fields, got)
		}
		if left := s.Ask("PTTL", rig.LockKey).Int; left < 50000 || left > 60002 {
			t.Errorf("it has %d ms to live", left)
		}
	}
}
