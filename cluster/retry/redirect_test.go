package retry

import (
	"net"
	"testing"

	"lockproxy/internal/slot"
)

func FuzzRedirect(f *testing.F) {
	for _, s := range []string{"3999 127.0.0.1:6381\r\n", "1 :7000\r\n", "16384 a:1\r\n",
		"1 ::1:7000\r\n", "",
		"1", "1 a:", "-1 a:1", "1 ?:1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, addr, ok := ParseRedirect(b, "127.0.0.1:6379")
		if !ok {
			return
		}
		if n < 0 || n >= slot.Count {
			t.Errorf("slot %d", n)
		}
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			t.Errorf("address %q: %v", addr, err)
		}
	})
}
