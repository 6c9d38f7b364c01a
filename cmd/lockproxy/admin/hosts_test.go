package admin

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"lockproxy/cmd/lockproxy/settings"
)

// TestAdminHosts proves that the admin listener answers under its own names and under any IP address, and
// under no other name, as that of a page which had its name resolve to this machine.
func TestAdminHosts(t *testing.T) {
	v := settings.Defaults()
	v.Admin.Addr, v.Admin.Hosts = "127.0.0.1:0", []string{"lockproxy", "proxy.example.org"}
	ln, err := net.Listen("tcp", v.Admin.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer Serve(ln, optionsOf(fixed{}, v))()
	addr := ln.Addr().String()
	ask := func(line string) (status, body string) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /healthz HTTP/1.%s\r\n\r\n", line)
		text, _ := io.ReadAll(bufio.NewReader(c))
		_, status, _ = strings.Cut(string(text), " ")
		return status, string(text)
	}
	for host, want := range map[string]string{
		"localhost": "200", "localhost:6390": "200", "LOCALHOST.": "200",
		"127.0.0.1:6390": "200", "10.42.0.17:6390": "200", "[::1]:6390": "200", "[::1]": "200",
		"lockproxy": "200", "Proxy.Example.Org:6390": "200", "": "200",
		"evil.example.org": "403", "evil.example.org:6390": "403", "127.0.0.1.evil.example.org": "403",
		"localhost.evil.example.org": "403", "xlocalhost": "403", "127.0.0.1:6390:x": "403", "a b": "400",
	} {
		status, text := ask("1\r\nConnection: close\r\nHost: " + host)
		if !strings.HasPrefix(status, want) {
			t.Errorf("Host %q: %s, want %s", host, text, want)
		}
		if want == "403" && !strings.Contains(text, "admin-hosts") {
			t.Errorf("Host %q: no reason: %s", host, text)
		}
	}
	if status, text := ask("0"); !strings.HasPrefix(status, "200") {
		t.Errorf("without Host: %s", text)
	}
	v = new(settings.Values)
	v.Admin.Addr = "Admin.Host:6390"
	if all := names(v); all[len(all)-1] != "admin.host" {
		t.Errorf("the host that admin names: %v", all)
	}
}
