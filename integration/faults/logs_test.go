package faults

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// What somebody did to others leaves a line, which names no secret, and a lock only as log-lock-names says.
func TestLogTellsWhatWasDone(t *testing.T) {
	t.Parallel()
	const name, token = "customer:4711", "a-token-that-nobody-is-told"
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:8]
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(token)))[:8]
	for shown, lock := range map[string]string{"hash": " lock=" + hash, "no": "", "yes": " lock=" + name} {
		t.Run(shown, func(t *testing.T) {
			t.Parallel()
			s := rig.StartRedis(t)
			p := rig.StartProxy(t, "--upstream", s.Addr, "--requirepass", "very-secret",
				"--log-lock-names", shown)
			holder, other := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
			if v := other.Call(t, "AUTH", "not-so-secret"); !v.IsError("WRONGPASS") {
				t.Fatalf("AUTH: %s", v)
			}
			p.Logged(t, `level=WARN msg="authentication failed" client=(\S+) user=default\n`)
			for _, c := range []*rig.Conn{holder, other} {
				c.Want(t, "OK", "AUTH", "very-secret")
			}
			keep := func() string {
				v := holder.Must(t, "LOCK", name, "TOKEN", token, "PX", "9000", "KEEPALIVE")
				return v.Elems[1].Text
			}
			fence := keep()
			other.Want(t, "(integer) 1", "LOCKCTL", "BREAK", name)
			p.Logged(t, `level=WARN msg="lock broken" client=`+other.LocalAddr().String()+` user=(default)`+
				lock+`\n`)
			lost := func(why string) {
				p.Logged(t, `level=WARN msg="lock lost" reason=(`+why+`) fence=`+fence+` token=`+digest+
					lock+`\n`)
			}
			lost("broken|gone")
			other.Want(t, "(integer) 0", "LOCKCTL", "BREAK", "nobody-holds-it")

			holder.Call(t, "UNLOCK", name, token) // -LOCKLOST
			fence = keep()
			s.Do(t, "FLUSHALL")
			lost("gone")

			other.Want(t, "OK", "CONFIG", "SET", "drain-timeout", "7s")
			p.Logged(t, `level=INFO msg="setting changed" setting=(drain-timeout) value=7s client=`+
				other.LocalAddr().String()+` user=default\n`)
			other.Want(t, "OK", "CONFIG", "SET", "slowlog-log-slower-than", "12345")
			p.Logged(t, `msg="setting changed" setting=(slowlog-log-slower-than) value=12345 `)
			other.Want(t, "OK", "CONFIG", "SET", "requirepass", "another-secret")
			p.Logged(t, `msg="setting changed" setting=(requirepass) value="\(not shown\)" `)
			if v := other.Call(t, "CONFIG", "SET", "drain-timeout", "nonsense"); !v.IsError("ERR") {
				t.Errorf("CONFIG SET of nonsense: %s", v)
			}

			text := p.Log.String()
			for _, secret := range []string{"secret", token, "nobody-holds-it", "nonsense"} {
				if strings.Contains(text, secret) {
					t.Errorf("the log has %q:\n%s", secret, text)
				}
			}
			if shown != "yes" && strings.Contains(text, name) {
				t.Errorf("the log has the name of a lock:\n%s", text)
			}
		})
	}
}
