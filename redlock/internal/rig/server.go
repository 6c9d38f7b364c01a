// Package rig is what tests of locks run against: a Redis, in the process and in fake time or a real one, an
// upstream with faults, and a client that asks for one thing at a time. For tests alone.
package rig

import (
	"bytes"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lockproxy/internal/resp"
)

// Patience is how long tests wait for what must happen: only a program that hangs takes longer.
const Patience = 2 * time.Minute

// Server is a Redis that tests run against: a real one, or one in the process.
type Server struct {
	T    testing.TB
	Dial func() (net.Conn, error)
	Mini *miniredis.Miniredis // nil: a real one
	Sent bool                 // SPUBLISH is known

	DeleteIf string // DELIFEQ or DELEX if it is known, else ""
}

// NewMini is a Redis in the process, for tests in fake time.
func NewMini(t testing.TB) *Server {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	return &Server{T: t, Mini: m, Dial: m.Dial}
}

// Conn is a connection to a server.
type Conn struct {
	net.Conn
	replies resp.Reader
}

// longest bounds the bytes that are read and not yet returned.
const longest = 1 << 30

// Connect opens a connection, or fails the test.
func (s *Server) Connect() *Conn {
	c, err := s.Dial()
	if err != nil {
		s.T.Fatal(err)
	}
	return &Conn{c, resp.Reader{From: c, Most: longest}}
}

// Reply reads one whole reply.
func (c *Conn) Reply() ([]byte, error) {
	_, raw, err := c.replies.Next()
	_, behind, _ := resp.Parse(raw)
	return raw[:len(raw)-len(behind)], err
}

// Do runs one command, whose script is loaded when the server does not have it.
func (c *Conn) Do(req []byte) ([]byte, error) {
	if _, err := c.Write(req); err != nil {
		return nil, err
	}
	reply, err := c.Reply()
	if err != nil || !bytes.HasPrefix(reply, []byte("-NOSCRIPT")) {
		return reply, err
	}
	if s := scriptIn(req); s == nil {
		return reply, nil
	} else if _, err := c.Do(resp.AppendCommandStrings(nil, "SCRIPT", "LOAD", s.Source)); err != nil {
		return nil, err
	}
	return c.Do(req)
}

// Ask runs one command of a test on a connection of its own.
func (s *Server) Ask(words ...string) resp.Value {
	s.T.Helper()
	c := s.Connect()
	defer c.Close()
	reply, err := c.Do(resp.AppendCommandStrings(nil, words...))
	if err != nil {
		s.T.Fatalf("%q: %v", words, err)
	}
	v, _, err := resp.Parse(reply)
	if err != nil {
		s.T.Fatal(err)
	}
	return v
}

// Keys are all keys but those of fences.
func (s *Server) Keys() (keys []string) {
	s.T.Helper()
	for _, key := range s.Ask("KEYS", "*").Elems {
		if !strings.Contains(key.Text(), ":fence:{") {
			keys = append(keys, key.Text())
		}
	}
	return keys
}

// Empty waits until nothing is left but fences. What is left after two seconds is an error: most leases in
// tests are longer.
func (s *Server) Empty(t *testing.T) {
	t.Helper()
	for i := 0; ; i++ {
		keys := s.Keys()
		if len(keys) == 0 {
			return
		}
		if i == 400 { // before leases are over
			for _, k := range keys {
				t.Errorf("left behind: %s, a %s with %v", k, s.Ask("TYPE", k).Text(), s.Ask("HGETALL", k))
			}
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// LockKey is the key of the lock job.
const LockKey = "lock:{job}"

// Integer is the number that text is.
func Integer(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// Everywhere runs test in fake time, and without the tag quick against a real Redis too.
func Everywhere(t *testing.T, test func(t *testing.T, s *Server)) {
	onRedis(t, test)
	t.Run("fake time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, NewMini(t)) })
	})
}

// InFakeTime runs test over a Redis in the process.
func InFakeTime(t *testing.T, test func(t *testing.T, s *Server)) {
	synctest.Test(t, func(t *testing.T) {
		InTheseYears()
		test(t, NewMini(t))
	})
}

// InTheseYears lets fake time, which begins in 2000, go on until fences of 16 digits, as the scripts expect
// them.
func InTheseYears() { time.Sleep(time.Until(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))) }

// Later is the later of both.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
