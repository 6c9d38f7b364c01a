package checkup

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/cluster"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/internal/resp"
	"lockproxy/internal/scripted"
	"lockproxy/redlock/scripts"
)

// What the scripts of locks call is what the user is asked to be allowed.
func TestRightsOfScripts(t *testing.T) {
	asked := []string{"TIME", "SPUBLISH", // among what the proxy needs anywhere
		"INFO", "PUBSUB", "SELECT"} // in scripts that do without
	for _, words := range onLocks {
		asked = append(asked, words[0])
	}
	calls := regexp.MustCompile(`\bp?call\('([A-Z]+)'`)
	found := 0
	for _, s := range scripts.All() {
		for _, call := range calls.FindAllStringSubmatch(s.Source, -1) {
			found++
			if !slices.Contains(asked,
				call[1]) && call[1] != "PEXPIRETIME" { // of Redis 7.0 on; it does without
				t.Errorf("%s.lua calls %s, which is not in onLocks", s.Name, call[1])
			}
		}
	}
	if found < 100 {
		t.Errorf("%d calls only", found)
	}
}

func at(offset, about time.Duration) clock { return clock{true, offset, about} }

// Clocks are said to be apart when they are for certain: half of the round trip is all that is known.
func TestClocks(t *testing.T) {
	for _, c := range []struct {
		clocks []clock
		want   []string // the beginnings of the lines
	}{
		{[]clock{at(time.Millisecond, time.Millisecond), at(-200*time.Millisecond, time.Millisecond)},
			[]string{
				"ok clock a 1ms ahead of this machine, give or take 1ms",
				"ok clock b 200ms behind this machine, give or take 1ms", "ok clocks  no two"}},
		{[]clock{at(3*time.Second, time.Millisecond), at(0, time.Millisecond)}, []string{
			"warn clock a 3s ahead of", "ok clock b", "fail clocks  b is behind a by 3s at least: "}},
		{[]clock{at(3*time.Second, 2*time.Second), at(0, time.Millisecond)}, []string{
			"ok clock a 3s ahead of this machine, give or take 2s", "ok clock b", "ok clocks"}},
		{[]clock{at(600*time.Millisecond, 0), at(-600*time.Millisecond, 0)}, []string{"ok clock " +
			"a", "ok clock b",
			"fail clocks  b is behind a by 1.2s"}},
		{[]clock{at(0, 0), {}}, []string{"ok clock a"}},
	} {
		var all []*checkedNode
		for i, k := range c.clocks {
			all = append(all, &checkedNode{addr: string(rune('a' + i)), clock: k})
		}
		var got []string
		tellClocks(all, func(f Fact) {
			got = append(got, fmt.Sprintf("%s %s %s %s", f.Level, f.About, f.Node, f.Text))
			if (f.Level == OK) != (f.Remedy == "") {
				t.Errorf("%+v", f)
			}
		})
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("got %q\nwant %q", got, c.want)
		}
	}
}

// The quickest round trip tells most of a clock.
func TestClockOfTheQuickestTrip(t *testing.T) {
	sent := time.Unix(1000, 0)
	reply := func(at time.Time) resp.Value {
		s, us := strconv.FormatInt(at.Unix(), 10), strconv.Itoa(at.Nanosecond()/1000)
		return resp.Value{Kind: '*', Elems: []resp.Value{{Kind: '$', Str: []byte(s)}, {Kind: '$',
			Str: []byte(us)}}}
	}
	var c clock
	c.heardTime(resp.Value{Kind: '-', Str: []byte("NOPERM")}, sent, time.Millisecond)
	if c.known {
		t.Error("an error is no clock")
	}
	c.heardTime(reply(sent.Add(800*time.Millisecond)), sent, time.Second)
	c.heardTime(reply(sent.Add(205*time.Millisecond)), sent, 10*time.Millisecond)
	c.heardTime(reply(sent.Add(900*time.Millisecond)), sent, time.Second)
	if want := at(200*time.Millisecond, 5*time.Millisecond); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
}

func TestCertificate(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		from, until int // days
		level       Level
		text        string
	}{
		{-10, 100, OK, "days left: 100 (until 2026-08-09)"},
		{-10, 14, OK, "days left: 14 "},
		{-10, 13, Warn, "days left: 13 "},
		{-10, 0, Fail, "has expired, on 2026-05-01"},
		{1, 90, Fail, "is good from 2026-05-02T12:00:00Z on only"},
	} {
		cert := &x509.Certificate{NotBefore: now.AddDate(0, 0, c.from), NotAfter: now.AddDate(0, 0, c.until)}
		f := Certificate("x", cert, now)
		if f.Level != c.level || !strings.HasPrefix(f.Text, c.text) || (f.Remedy == "") != (c.level == OK) {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

// A node that goes in the middle of the questions is told of once, and not for each that came too late.
func TestNodeThatGoes(t *testing.T) {
	node := &scripted.Node{Answer: func(command string) string {
		if command == "TIME" {
			return scripted.Cut
		}
		return "+OK\r\n"
	}}
	v := settings.Defaults()
	v.Upstream.Log = slog.New(slog.DiscardHandler)
	v.Upstream.Dial = func(context.Context, string, string) (net.Conn, error) { return node.Dial(), nil }
	n := &checkedNode{addr: "a:1"}
	n.visitNode(t.Context(), v)
	var facts []Fact
	n.tellFacts(v, func(f Fact) { facts = append(facts, f) })
	if len(facts) != 1 || facts[0].Level != Fail || facts[0].Text != "cannot be used: EOF" {
		t.Errorf("%+v", facts)
	}
}

// Where INFO is forbidden nothing is said to be wrong that only INFO could tell; HELLO tells the role.
func TestWithoutInfo(t *testing.T) {
	forbidden := resp.Value{Kind: '-', Str: []byte("NOPERM")}
	all := []*checkedNode{{addr: "a:1", info: forbidden}, {addr: "b:1", info: forbidden, replica: true}}
	w := &wholeUpstream{nodes: all, topology: &cluster.Topology{Masters: []*cluster.Node{{Addr: "a:1"}}}}
	v := new(settings.Values)
	v.Proxy.Locks.Sync = 1
	w.tellFacts(v, func(f Fact) {
		wrong := f.Node == "b:1" && f.About == "node" && !strings.Contains(f.Text, ": replica, ")
		if f.Level == Fail || wrong {
			t.Errorf("%+v", f)
		}
	})
}
