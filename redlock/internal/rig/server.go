// Package rig is what tests of locks run against: a Redis, in the process and in fake time or a real one, an
// upstream with faults, and a client that asks for one thing at a time. For tests alone.
package rig

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
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
	buf []byte
}

func (s *Server) Connect() *Conn {
	c, err := s.Dial()
	if err != nil {
		s.T.Fatal(err)
	}
	return &Conn{Conn: c}
}

// Reply reads one whole reply.
func (c *Conn) Reply() ([]byte, error) {
	chunk := make([]byte, 16<<10)
	for {
		if _, rest, err := resp.Parse(c.buf); err == nil {
			whole := c.buf[:len(c.buf)-len(rest)]
			c.buf = rest
			return whole, nil
		} else if !errors.Is(err, resp.ErrIncomplete) {
			return nil, err
		}
		n, err := c.Read(chunk)
		if err != nil {
			return nil, err
		}
		c.buf = append(slices.Clip(c.buf), chunk[:n]...)
	}
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

// Empty waits until nothing is left but fences.
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

// Text shows a reply the way that tables spell it.
func Text(v resp.Value) string {
	switch {
	case v.Null():
		return "nil"
	case v.Err() != "":
		word, _, _ := strings.Cut(v.Err(), " ")
		return "-" + word
	case v.Kind == '*':
		var all []string
		for _, e := range v.Elems {
			all = append(all, Text(e))
		}
		return "[" + strings.Join(all, " ") + "]"
	case v.Kind == ':':
		return strconv.FormatInt(v.Int, 10)
	}
	return fmt.Sprint(v.Text())
}

// The lock job, and the fence of its slot.
const (
	LockKey  = "lock:{job}"
	FenceKey = "lock:fence:{job}"
)

// Plainly are the arguments of acquire.lua of which tests say token, lease, mode, id, reentrant, and the
// others. The clock of the proxy shows us.
func Plainly(us int64, args []string) []string {
	lease, _ := strconv.ParseInt(args[1], 10, 64)
	all := []string{fmt.Sprintf("lockproxy 1 %016d +%s %s", us, args[3], args[0]), fmt.Sprint(lease + 1)}
	if len(args) == 5 && args[2] == "w" && args[4] == "0" {
		return all
	}
	return append(append(all, args[2], args[4]), args[5:]...)
}

// LowClock is a fence that is too low.
const LowClock = 1e15

// EvalSHA is the EVALSHA of script. The fences that a LOCK asks for are too low.
func EvalSHA(script scripts.Script, keys []string, args ...string) []byte {
	if script.Name == scripts.Acquire.Name && !strings.HasPrefix(args[0], "lockproxy ") {
		args = Plainly(LowClock, args)
	}
	switch script.Name {
	case scripts.Release.Name:
		args = together(args)
	case Renew.Name:
		args = append([]string{"client", FenceKey}, append(args, make([]string, 4-len(args))...)...)
	case Keep.Name:
		args = append([]string{"keeper", FenceKey}, args...)
	case Break.Name:
		args = append(slices.Clone(args), make([]string, 5-len(args))...)
		name := args[4:]
		if name[0] == "" {
			name = nil
		}
		args = slices.Concat([]string{"", args[3]}, args[:3], name)
	case Detach.Name:
		args = together(append([]string{args[0], args[1], args[1]}, args[2:]...))
	}
	words := append([]string{"EVALSHA", script.SHA, strconv.Itoa(len(keys))}, keys...)
	return resp.AppendCommandStrings(nil, append(words, args...)...)
}

// What scripts are for, as tests call it: release.lua for a keeper, of which they say token, keeper, proxy,
// command, and what becomes of the lock; renew.lua for one lock, for a client (token, lease, which grant is
// meant, keeper), and a keeper (likewise); and cancel.lua for BREAK, of which they say proxy, command, what
// becomes of the lock, id, and the name of the fence's key.
var (
	Break  = scripts.Script{Name: "break", SHA: scripts.Cancel.SHA, Source: scripts.Cancel.Source, Keys: 2}
	Detach = scripts.Script{Name: "detach", SHA: scripts.Release.SHA, Source: scripts.Release.Source, Keys: 2}
	Renew  = scripts.Script{Name: "client", SHA: scripts.Renew.SHA, Source: scripts.Renew.Source, Keys: 1}
	Keep   = scripts.Script{Name: "keeper", SHA: scripts.Renew.SHA, Source: scripts.Renew.Source, Keys: 1}
)

// Renewed is the reply of renew.lua about one lock without what is not there: the fence 0, and the clock.
func Renewed(v resp.Value) resp.Value {
	switch n := len(v.Elems); {
	case n == 0:
		return v
	case n == 2 || v.Elems[1].Int == 0:
		return v.Elems[0]
	default:
		v.Elems, v.Int = v.Elems[:n-1], int64(n-1)
		return v
	}
}

// together are the arguments of release.lua of which tests say token, which grant is meant, id, proxy,
// command, what becomes of the lock, known fence, and the name of the fence's key; the last three may be left
// out.
func together(args []string) []string {
	args = append(slices.Clone(args), make([]string, 8-len(args))...)
	next := cmp.Or(args[5], string(scripts.GrantNext))
	all := []string{args[0], strings.Join([]string{args[2], args[3], args[4], next, args[6]}, " "), args[1]}
	if args[7] != "" {
		all = append(all, args[7])
	}
	return all
}

// Integer is the number that text is.
func Integer(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// Milliseconds are n of them.
func Milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

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

// RandomID is an id of 16 letters and digits, as requests and proxies have.
func RandomID() string { return strings.ToLower(redlock.NewToken()[:16]) }
