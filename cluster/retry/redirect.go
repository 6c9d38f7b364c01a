package retry

import (
	"bytes"
	"net"
	"strconv"
	"strings"

	"lockproxy/internal/slot"
)

// IsRedirect says that an error reply names another node.
func IsRedirect(reply []byte) bool {
	return bytes.HasPrefix(reply, []byte("-MOVED ")) || bytes.HasPrefix(reply, []byte("-ASK "))
}

// ParseRedirect reads "3999 127.0.0.1:6381". An empty host means the host that answered (Redis Cluster
// specification, MOVED redirection), and "?" one without a name at a node that prefers names.
func ParseRedirect(b []byte, from string) (n int, addr string, ok bool) {
	number, rest, _ := bytes.Cut(bytes.TrimRight(b, "\r\n"), []byte(" "))
	n, err := strconv.Atoi(string(number))
	if err != nil || n < 0 || n >= slot.Count {
		return 0, "", false
	}
	// An IPv6 address comes without brackets: the port is behind the last colon.
	colon := bytes.LastIndexByte(rest, ':')
	if colon < 0 {
		return 0, "", false
	}
	host, port := string(rest[:colon]), string(rest[colon+1:])
	if p, err := strconv.ParseUint(port, 10, 16); err != nil || p == 0 {
		return 0, "", false
	}
	if strings.ContainsAny(host, "[]") {
		return 0, "", false
	}
	if host == "" {
		if host, _, err = net.SplitHostPort(from); err != nil {
			return 0, "", false
		}
	}
	return n, net.JoinHostPort(host, port), true
}

// Plain is a reply of which clients do not follow the redirect.
func Plain(reply []byte) []byte {
	if IsRedirect(reply) {
		return append([]byte("-ERR "), reply[1:]...)
	}
	return reply
}
