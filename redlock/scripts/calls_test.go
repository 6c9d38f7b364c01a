package scripts_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// This file is how tests call scripts, and spell their replies.

// fenceKey is the key of the fence of the lock job.
const fenceKey = "lock:fence:{job}"

// textOf shows a reply the way that tables spell it.
func textOf(v resp.Value) string {
	switch {
	case v.Null():
		return "nil"
	case v.Err() != "":
		word, _, _ := strings.Cut(v.Err(), " ")
		return "-" + word
	case v.Kind == '*':
		var all []string
		for _, e := range v.Elems {
			all = append(all, textOf(e))
		}
		return "[" + strings.Join(all, " ") + "]"
	case v.Kind == ':':
		return strconv.FormatInt(v.Int, 10)
	}
	return fmt.Sprint(v.Text())
}

// plainly are the arguments of acquire.lua of which tests say token, lease, mode, id, reentrant, and the
// others. The clock of the proxy shows us.
func plainly(us int64, args []string) []string {
	lease, _ := strconv.ParseInt(args[1], 10, 64)
	all := []string{fmt.Sprintf("lockproxy 1 %016d +%s %s", us, args[3], args[0]), fmt.Sprint(lease + 1)}
	if len(args) == 5 && args[2] == "w" && args[4] == "0" {
		return all
	}
	return append(append(all, args[2], args[4]), args[5:]...)
}

// lowClock is a fence that is too low.
const lowClock = 1e15

// evalSHA is the EVALSHA of script. The fences that a LOCK asks for are too low.
func evalSHA(script scripts.Script, keys []string, args ...string) []byte {
	if script.Name == scripts.Acquire.Name && !strings.HasPrefix(args[0], "lockproxy ") {
		args = plainly(lowClock, args)
	}
	switch script.Name {
	case scripts.Release.Name:
		args = together(args)
	case renewScript.Name:
		args = append([]string{"client", fenceKey}, append(args, make([]string, 4-len(args))...)...)
	case keepScript.Name:
		args = append([]string{"keeper", fenceKey}, args...)
	case breakScript.Name:
		args = append(slices.Clone(args), make([]string, 5-len(args))...)
		name := args[4:]
		if name[0] == "" {
			name = nil
		}
		args = slices.Concat([]string{"", args[3]}, args[:3], name)
	case detachScript.Name:
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
	breakScript  = called("break", scripts.Cancel)
	detachScript = called("detach", scripts.Release)
	renewScript  = called("client", scripts.Renew)
	keepScript   = called("keeper", scripts.Renew)
)

// called is a script under another name, for one lock.
func called(name string, s scripts.Script) scripts.Script {
	s.Name, s.Keys = name, max(s.Keys, 1)
	return s
}

// renewedIn is the reply of renew.lua about one lock without what is not there: the fence 0, and the clock.
func renewedIn(v resp.Value) resp.Value {
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

// milliseconds are n of them.
func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// randomID is an id of 16 letters and digits, as requests and proxies have.
func randomID() string { return strings.ToLower(redlock.NewToken()[:16]) }

// notedRenew is the request of a renewal.
func notedRenew(l rig.Locking, r *redlock.Renew) *rig.Noted {
	n := &rig.Noted{}
	l.Renew(n, r, func(redlock.Renewed, error) []byte { return nil })
	return n
}
