package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Detours say where nodes are reached that announce addresses which lead nowhere from here: behind NAT, in
// containers, through tunnels. A key is host:port or a host alone, as nodes announce it; what it stands for
// is one too, and without a port of its own it keeps that of the node. Nodes are known by what they announce;
// only who dials them takes the detour.
type Detours map[string]string

// ParseDetours reads "10.0.0.5:6379=127.0.0.1:7001, 10.0.0.6=db6.example.com", with commas or white space
// between them.
func ParseDetours(text string) (Detours, error) {
	d := make(Detours)
	between := func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }
	for one := range strings.FieldsFuncSeq(text, between) {
		from, to, ok := strings.Cut(one, "=")
		at, fromHost, err := parsePlace(from)
		there, toHost, wrong := parsePlace(to)
		switch {
		case !ok || err != nil || wrong != nil:
			return nil, fmt.Errorf("%q is not like 10.0.0.5:6379=127.0.0.1:7001, or like "+
				"10.0.0.5=192.0.2.1", one)
		case fromHost && !toHost:
			return nil, fmt.Errorf("%q: all ports of a host cannot be at one port: name the port of the "+
				"node", one)
		case d[at] != "":
			return nil, fmt.Errorf("%s is there twice", at)
		}
		d[at] = there
	}
	return d, nil
}

// parsePlace reads host:port, or a host alone.
func parsePlace(text string) (at string, host bool, err error) {
	if name, port, err := net.SplitHostPort(text); err == nil && name != "" && port != "" {
		return net.JoinHostPort(name, port), false, nil
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if _, err := netip.ParseAddr(text); err != nil && (text == "" || strings.Contains(text, ":")) {
		return "", false, err
	}
	return text, true, nil
}

// Of is where the node is reached that announces addr.
func (d Detours) Of(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || len(d) == 0 {
		return addr
	}
	// What is said of the node alone counts before what is said of its host.
	to := cmp.Or(d[addr], d[host])
	if to == "" {
		return addr
	}
	if _, _, err := net.SplitHostPort(to); err == nil {
		return to
	}
	return net.JoinHostPort(to, port)
}

// String is d as ParseDetours reads it.
func (d Detours) String() string {
	var all []string
	for _, from := range slices.Sorted(maps.Keys(d)) {
		all = append(all, from+"="+d[from])
	}
	return strings.Join(all, ",")
}
