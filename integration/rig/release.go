package rig

import (
	"fmt"
	"slices"
)

// Release are the versions of a server by product: Valkey has one of Redis too. nil: it is none of them.
type Release map[string]string

// ReleaseOf reads a reply to INFO server. The Redis in memory does not say how it was built.
func ReleaseOf(info string) Release {
	if InfoField(info, "redis_build_id") == "" {
		return nil
	}
	r := Release{"redis": InfoField(info, "redis_version")}
	if v := InfoField(info, "valkey_version"); v != "" {
		r["valkey"] = v
	}
	return r
}

// AskRelease asks the server, or the proxy in front of it.
func AskRelease(addr string) (Release, error) {
	v, err := Ask(addr, "INFO", "server")
	return ReleaseOf(v.Text), err
}

// Since says that the server at addr, or behind the proxy there, is that version, as "redis 7.0", or newer.
func Since(l Life, addr, version string) bool {
	l.Helper()
	is, err := AskRelease(addr)
	if err != nil {
		l.Fatalf("INFO at %s: %v", addr, err)
	}
	return is.Since(version)
}

// Since says that the server is that version, as "redis 7.2", or a newer one.
func (r Release) Since(version string) bool {
	var product string
	var want, is [3]int
	fmt.Sscanf(version, "%s %d.%d.%d", &product, &want[0], &want[1], &want[2])
	if r[product] == "" {
		return false
	}
	fmt.Sscanf(r[product], "%d.%d.%d", &is[0], &is[1], &is[2])
	return slices.Compare(is[:], want[:]) >= 0
}
