package scripts

import (
	"testing"
	"time"

	"lockproxy/redlock"
)

func TestReadGrant(t *testing.T) {
	owner := "$33\r\n" + redlock.OwnerOf("me") + "\r\n"
	for reply, want := range map[string]bool{
		"*4\r\n" + owner + ":7\r\n:30000\r\n:1\r\n":     true,
		"*4\r\n" + owner + ":7\r\n:30000\r\n:1\r\nmore": false,
		"*4\r\n" + owner + ":7\r\n:30000\r\n:1\r":       true, // frames are whole: the framer saw to that
		"*4\r\n$2\r\nyo\r\n:7\r\n:30000\r\n:1\r\n":      false,
		"*4\r\n" + owner[:12]:                           false,
		"*4\r\n" + owner + ":7\r\n$1\r\n3\r\n:1\r\n":    false,
		"*4\r\n" + owner + ":\r\n:30000\r\n:1\r\n":      false,
		"*3\r\n:1\r\n:2\r\n$0\r\n\r\n":                  false,
		"*4\r\n$":                                       false,
		"$-1\r\n":                                       false,
		"":                                              false,
	} {
		g, ok := readGrant("me", []byte(reply))
		if ok != want || ok && g != (redlock.Grant{Token: "me", Fence: 7, TTL: 30 * time.Second, Count: 1}) {
			t.Errorf("readGrant(%q) = %+v, %v", reply, g, ok)
		}
	}
}
