package scripts

import (
	"strconv"
	"strings"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
)

// Inspect reads a lock.
var Inspect = loadScript("inspect", 1)

// InspectCall is the call that reads a lock, or goes on behind the pages p; if token is not "", only its
// hold. With a token it is a write: what made that hold cannot be taken back any more.
func InspectCall(n *redlock.Names, name, token string, p *Pages) Call {
	c := eval(nil, n, &Inspect, false, name)
	c.OwnerIf(token)
	if p.next != "" {
		c.Text(p.next)
	}
	return c.whole()
}

// scanStep is how many keys a node looks at in one SCAN, which takes it about 0.1 ms.
const scanStep = 1000

// ScanRequest is the command for one page of keys.
func ScanRequest(cursor, glob string) []byte {
	return resp.AppendCommandStrings(nil, "SCAN", cursor, "MATCH", glob, "COUNT", strconv.Itoa(scanStep))
}

// ReadLock reads the reply of inspect.lua. The zero State is that of a free lock. After ErrAgain ask for the
// next page, with the same p. reply must stay as it is until then.
func ReadLock(reply []byte, p *Pages) (s redlock.State, err error) {
	v, err := ReadValue(reply)
	if err != nil || v.Null() {
		return s, err
	}
	v, more := p.Add(v)
	if more {
		return s, redlock.ErrAgain
	}
	s, err = ReadState(v)
	s.SetRest()
	return s, err
}

// ReadKeys reads a page of SCAN. next is the cursor of the next page, "0" behind the last one.
func ReadKeys(reply []byte) (keys []string, next string, err error) {
	v, err := ReadValue(reply)
	switch {
	case err != nil:
		return nil, "", err
	case len(v.Elems) != 2:
		return nil, "", ErrReply
	}
	for _, key := range v.Elems[1].Elems {
		keys = append(keys, key.Text())
	}
	return keys, v.Elems[0].Text(), nil
}

// Pages are the replies of inspect.lua about one lock; there are several if its holds are long. The zero
// value stands before the first one. A lock may change between two pages.
type Pages struct {
	fields []resp.Value // so far, names and values
	next   string       // where the next page begins, from the script; "": there is none
}

// Add adds a reply, which must stay as it is. It returns the whole lock, unless there are more pages to ask
// for.
func (p *Pages) Add(v resp.Value) (whole resp.Value, more bool) {
	p.next = ""
	n := len(v.Elems)
	if more = n > 2 && v.Elems[n-2].Text() == "next"; more {
		p.next, n = v.Elems[n-1].Text(), n-2
	}
	if !more && len(p.fields) == 0 || n == 0 {
		return v, more
	}
	p.fields = append(p.fields, v.Elems[1:n]...)
	v.Elems = append([]resp.Value{v.Elems[0]}, p.fields...)
	return v, more
}

// ReadState reads a reply with a whole lock. A hold that rests is among the holders still, which stand in no
// order, and the fence of the lock is not set: see SetRest. The first element is the clock in µs; behind it
// stand fields and values, as docs/house.md lists them.
func ReadState(v resp.Value) (s redlock.State, err error) {
	if len(v.Elems)%2 == 0 {
		return s, ErrReply
	}
	us := parseNumber(v.Elems[0].Text())
	field := make(map[string]string, len(v.Elems)/2)
	for i := 1; i < len(v.Elems); i += 2 {
		field[v.Elems[i].Text()] = v.Elems[i+1].Text()
	}
	if owner, ok := field["o"]; ok {
		addHolder(&s, us, owner, redlock.Write, field["w"])
	}
	shared := redlock.Read
	if n, ok := strings.CutPrefix(field["v"], "permits "); ok {
		s.Permits, shared = int(parseNumber(n)), redlock.Permit
	}
	for name, value := range field {
		if owner, ok := strings.CutPrefix(name, "r:"); ok {
			addHolder(&s, us, owner, shared, value)
		}
	}
	s.Waiters = int(parseNumber(field["waiters"]))
	return s, nil
}

// addHolder adds a holder whose lease is not over: expiry, count, fence, since, keeper, the
// requests, and behind them the meta.
func addHolder(s *redlock.State, us int64, owner string, m redlock.Mode, hold string) {
	f := strings.SplitN(hold, " ", 7)
	if len(f) < 6 {
		return
	}
	now, e, since := us/1000, parseNumber(f[0]), parseNumber(f[3])
	if e <= now {
		return
	}
	// One ms less, since leases are counted from the millisecond behind the one that runs (now.lua).
	h := redlock.Holder{
		Owner: owner, Mode: m, TTL: ms(e - now - 1), Count: parseNumber(f[1]), Fence: parseNumber(f[2]),
		Age: ms(max(now-since, 0)), Kept: f[4] != "-",
	}
	if len(f) == 7 {
		h.Meta = f[6]
	}
	s.Holders = append(s.Holders, h)
}

// parseNumber is 0 for "", which stands for a field that is not there.
func parseNumber(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64) // the scripts write numbers only
	return n
}
