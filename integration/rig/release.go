package rig

import (
	"fmt"
	"slices"
	"strings"
)

// release are the versions of a server by product: Valkey has one of Redis too. nil: it is none of them.
type release map[string]string

// releaseOf reads a reply to INFO server. The Redis in memory does not say how it was built.
func releaseOf(info string) release {
	if InfoField(info, "redis_build_id") == "" {
		return nil
	}
	r := release{"redis": InfoField(info, "redis_version")}
	if v := InfoField(info, "valkey_version"); v != "" {
		r["valkey"] = v
	}
	return r
}

// askRelease asks the server, or the proxy in front of it.
func askRelease(addr string) (release, error) {
	v, err := Ask(addr, "INFO", "server")
	return releaseOf(v.Text), err
}

// Since says that the server at addr, or behind the proxy there, is that version, as "redis 7.0", or newer.
func Since(l Life, addr, version string) bool {
	l.Helper()
	is, err := askRelease(addr)
	if err != nil {
		l.Fatalf("INFO at %s: %v", addr, err)
	}
	return is.since(version)
}

// since says that the server is that version, as "redis 7.2", or a newer one.
func (r release) since(version string) bool {
	var product string
	var want, is [3]int
	fmt.Sscanf(version, "%s %d.%d.%d", &product, &want[0], &want[1], &want[2])
	if r[product] == "" {
		return false
	}
	fmt.Sscanf(r[product], "%d.%d.%d", &is[0], &is[1], &is[2])
	return slices.Compare(is[:], want[:]) >= 0
}

// holds says that the wording is one of the server's.
func (r release) holds(w wording) bool {
	product, _, _ := strings.Cut(w.at, " ")
	return r[product] != "" && r.since(w.at) == w.since
}

// wording is the step in the words of the server.
func (r release) wording(s step) step {
	for _, w := range s.other {
		if r.holds(w) {
			s.text = w.text
		}
	}
	return s
}
