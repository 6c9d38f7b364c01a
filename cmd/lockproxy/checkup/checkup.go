// Package checkup finds out whether a proxy could do its work with the upstream and the masters of RedLock
// that its settings name: it is `lockproxy check`. It changes nothing there; the scripts of locks are loaded,
// as each proxy does it.
//
//	Run --> discovery.Find --> the nodes --> visitNode: each is asked once, some at a time
//	                                            |
//	        Fact, Fact ... <-- what is said of one node (node.go), and of all together (whole.go)
//
// A Fact is one line for somebody who looks after the installation: what is so, and what to do about it.
package checkup

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/discovery"
	"lockproxy/cmd/lockproxy/settings"
)

// Level says how bad a fact is.
type Level uint8

// The levels.
const (
	OK   Level = iota
	Warn       // it works, but somebody should know
	Fail       // it does not work, or locks are in danger
)

// String is "ok", "warn" or "fail".
func (l Level) String() string { return [...]string{"ok", "warn", "fail"}[l] }

// MarshalText is String.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Fact is one thing that was found out. Text goes on after About and Node.
type Fact struct {
	Level  Level  `json:"level"`
	About  string `json:"about"`          // one word: "node", "clock"
	Node   string `json:"node,omitempty"` // its address, or what else the fact is about
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"` // what to do, unless it is OK
}

const (
	// attempts is how often finding the upstream may fail. Each attempt tries all addresses, and the pauses
	// between them are Find's.
	attempts = 3
	// abreast is how many nodes are asked at a time.
	abreast = 16
	// mostNodes is how many nodes are asked at all. They are those of Addrs, the topology and what other
	// nodes name: a node could name any number.
	mostNodes = 2000
)

// Run calls tell with each fact, in an order that is good to read. v are the settings that a proxy would be
// started with, with the logins and certificates that they name; Upstream.Log discards, for facts tell the
// same. Run blocks until all nodes have been asked, each for a few connect time-outs at most, or ctx ends.
// tell is called on the goroutine of Run.
func Run(ctx context.Context, v *settings.Values, tell func(Fact)) {
	var all []*checkedNode
	if len(v.Upstream.Addrs) > 0 {
		w, err := findUpstream(ctx, v)
		if err != nil {
			unfound(v, err, tell)
		} else {
			visitNodes(ctx, v, w.nodes)
			// Nodes of which others speak, such as a master that is down: the topology does not have them,
			// but somebody should know.
			visitNodes(ctx, v, w.learnNodes())
			w.tellFacts(v, tell)
			w.tellPeers(ctx, v, tell)
			all = w.nodes
		}
	}
	var masters []*checkedNode
	for _, addr := range v.Redlock {
		masters = append(masters, &checkedNode{addr: addr, part: redlocked})
	}
	visitNodes(ctx, v, masters)
	tellMasters(v, masters, tell)
	tellClocks(slices.Concat(all, masters), tell)
}

// dialerOf dials nodes as a proxy with these settings does, with its detours and certificates. Each node has
// one of its own.
func dialerOf(v *settings.Values, logins *cluster.Logins) *cluster.Dialer {
	return &cluster.Dialer{Logins: logins, TLS: v.Upstream.TLS, ConnectTimeout: v.Upstream.ConnectTimeout,
		KeepAlive: v.Upstream.KeepAlive, Log: v.Upstream.Log, Detour: v.Upstream.Detour, Net: v.Upstream.Dial}
}

// findUpstream finds the upstream.
func findUpstream(ctx context.Context, v *settings.Values) (*wholeUpstream, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed, found := 0, v.Upstream
	found.Failed = func(error) {
		// A proxy would try on for ever. Whoever runs check wants an answer.
		if failed++; failed == attempts {
			stop()
		}
	}
	up, err := discovery.Find(ctx, found)
	if err != nil {
		return nil, err
	}
	// Only the topology is wanted: nodes are then asked over connections of their own.
	defer up.Close()
	return newWhole(v, up.Topology()), nil
}

// unfound tells why there is no upstream.
func unfound(v *settings.Values, err error, tell func(Fact)) {
	var failed *cluster.DiscoverError
	if !errors.As(err, &failed) {
		tell(Fact{Fail, "upstream", "", err.Error(), "name any of its nodes with upstream"})
		return
	}
	for _, f := range failed.Failed {
		tell(unreached(v, f.Addr, f.Err))
	}
	tell(Fact{Fail, "upstream", "", "none of the nodes that are named can be used",
		"a proxy would wait for one of them"})
}

// unreached is the fact that a node cannot be used. Other nodes may call it what leads nowhere from here.
func unreached(v *settings.Values, addr string, err error) Fact {
	var named cluster.NodeError
	if errors.As(err, &named) {
		// without the address, which the fact has by itself
		err = named.Err
	}
	text, remedy, _ := strings.Cut(cluster.Explain(err), " (")
	if remedy = strings.TrimSuffix(remedy, ")"); remedy == "" {
		remedy = "look at the log of the node, and at the network between"
	}
	if !slices.Contains(v.Upstream.Addrs, addr) && !slices.Contains(v.Redlock, addr) {
		remedy += "; other nodes call it so: if it is reached elsewhere from here (NAT, containers, " +
			"a tunnel), say where with upstream-map " + addr + "=HOST:PORT"
	}
	return Fact{Fail, "node", addr, "cannot be used: " + text, remedy}
}

// visitNodes asks all nodes.
func visitNodes(ctx context.Context, v *settings.Values, all []*checkedNode) {
	var asking sync.WaitGroup
	places := make(chan struct{}, abreast)
	for _, n := range all {
		asking.Go(func() { // ends with ctx, or when the node is silent
			places <- struct{}{}
			n.visitNode(ctx, v)
			<-places
		})
	}
	asking.Wait()
}

// soon is how many days before its end a certificate is warned of.
const soon = 14

// Certificate is the fact of how long a certificate is good for. name says which one it is.
func Certificate(name string, cert *x509.Certificate, now time.Time) Fact {
	f := Fact{About: "certificate", Node: name}
	left, ends := cert.NotAfter.Sub(now), cert.NotAfter.UTC().Format(time.DateOnly)
	switch days := int(left.Hours() / 24); {
	case now.Before(cert.NotBefore):
		f.Level, f.Text = Fail, "is good from "+cert.NotBefore.UTC().Format(time.RFC3339)+" on only"
		f.Remedy = "look at the clock of this machine, and at who made the certificate"
	case left <= 0:
		f.Level, f.Text, f.Remedy = Fail, "has expired, on "+ends, "renew it"
	case days < soon:
		f.Level, f.Text, f.Remedy = Warn, fmt.Sprintf("days left: %d (until %s)", days, ends), "renew it"
	default:
		f.Text = fmt.Sprintf("days left: %d (until %s)", days, ends)
	}
	return f
}
