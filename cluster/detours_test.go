package cluster

import (
	"strings"
	"testing"
)

func TestDetours(t *testing.T) {
	const text = "10.0.0.5:6379=127.0.0.1:7001,10.0.0.5=192.0.2.1,\n db.internal:1=db.example\t" +
		"[::1]:6379=[::2]:7,::3=::4"
	d, err := ParseDetours(text)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseDetours(d.String()); err != nil || again.String() != d.String() || len(again) != 5 {
		t.Errorf("%s: %v", d, err)
	}
	for addr, want := range map[string]string{
		"10.0.0.5:6379":    "127.0.0.1:7001",
		"10.0.0.5:6380":    "192.0.2.1:6380",
		"10.0.0.6:6379":    "10.0.0.6:6379",
		"db.internal:1":    "db.example:1",
		"db.internal:2":    "db.internal:2",
		"[::1]:6379":       "[::2]:7",
		"[::3]:9":          "[::4]:9",
		"/var/run/r.sock":  "/var/run/r.sock",
		"192.0.2.1:6379":   "192.0.2.1:6379",
		"127.0.0.1:7001":   "127.0.0.1:7001",
		"10.0.0.5:notport": "192.0.2.1:notport",
	} {
		if got := d.Of(addr); got != want {
			t.Errorf("%s is at %s, want %s", addr, got, want)
		}
	}
	for text, why := range map[string]string{
		"10.0.0.5":               "is not like",
		"10.0.0.5:6379=":         "is not like",
		"=127.0.0.1:1":           "is not like",
		"a:b:c=d":                "is not like",
		"10.0.0.5=127.0.0.1:1":   "cannot be at one port",
		"10.0.0.5=a,10.0.0.5=b ": "twice",
	} {
		if d, err := ParseDetours(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
}
