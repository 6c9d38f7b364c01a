// Package glob matches patterns as Redis does: * ? [a-c] [^x] and \ before any of them, without recursion and
// in a bounded time, whatever the pattern is.
//
//	glob.Match([]byte("lock:*"), []byte("lock:job"))              true
//	ok, left := glob.MatchWithin(pattern, name, steps)            the same, for many of them in one budget
//	glob.CanBegin([]byte("__key*"), "__keyspace@")                whether any match begins so
//
// Patterns and names come from clients, and a loop that matches them serves others, too. A matcher that goes
// back to every star takes a time that grows with a power of the length; this one goes back to the last star
// only, which is enough (matcher).
//
// Begin reading at Match, then matcher.match.
package glob

import "bytes"

const (
	// maxStars is how many stars a pattern may have, not counting one at its end: Redis's own limit since
	// 7.4.1, 7.2.6 and 6.2.16.
	maxStars = 1000
	// freeSteps is how many steps a match may take besides those that grow with the length of its input.
	freeSteps = 1 << 20
)

// Match says whether all of s matches pattern, in every odd case as Redis's own function (util.c,
// stringmatchlen) decides it; upper and lower case differ.
//
// Its time grows with the length of pattern and s together, never with their product. A search that would
// take longer, because a long part of the pattern nearly fits at every place of a long s, is given up, and s
// does not match. That cannot happen if len(pattern) * len(s) is below a million.
func Match(pattern, s []byte) bool {
	if len(s) == 0 {
		return len(pattern) == 0 // not even a star matches nothing at all
	}
	m := newMatcher(pattern, s)
	return m.match()
}

// MatchWithin is Match that gives up if it would take more than most steps, of some nanoseconds each. left
// is how many steps are left; a negative one means that it has given up, and then ok says nothing.
func MatchWithin(pattern, s []byte, most int) (ok bool, left int) {
	if most -= 1 + (len(pattern)+len(s))/16; most < 0 { // this much is gone through at once
		return false, most
	}
	if len(s) == 0 {
		return len(pattern) == 0, most
	}
	m := newMatcher(pattern, s)
	// No single match may take more than it would alone, whatever is left of the budget.
	m.steps = min(m.steps, most)
	most -= m.steps
	ok = m.match()
	return ok, most + m.steps
}

// matcher goes through pattern and text once. If something does not fit, it goes back to the last star,
// never to an earlier one: that star has taken the shortest text that fits, and a longer one would leave
// less.
type matcher struct {
	p, s  []byte // what is left of the pattern and of the text
	stars int    // that the pattern had so far
	steps int    // that are left

	behind []byte // the pattern behind the last star
	plain  []byte // the front of behind, up to what is no ordinary letter
	from   []byte // the text of which that star has not taken any yet; nil: there was no star
}

func newMatcher(pattern, s []byte) matcher {
	return matcher{p: pattern, s: s, steps: freeSteps + 4*(len(pattern)+len(s))}
}

func (m *matcher) match() bool {
	for len(m.s) > 0 {
		if len(m.p) > 0 && m.p[0] == '*' {
			switch m.p = bytes.TrimLeft(m.p, "*"); {
			case len(m.p) == 0:
				return true
			case !m.star():
				return false
			}
			continue
		}
		if len(m.p) > 0 {
			n, ok := one(m.p, m.s[0])
			m.steps -= n
			if ok {
				m.p, m.s = m.p[n:], m.s[1:]
				continue
			}
		}
		if m.from == nil || m.steps < 0 {
			return false
		}
		// The last star takes one byte more.
		m.from = m.from[1:]
		if !m.findPlain() {
			return false
		}
	}
	return len(bytes.TrimLeft(m.p, "*")) == 0
}

// star lets the star before m.p take the shortest text such that the letters behind it fit.
func (m *matcher) star() bool {
	// Redis finds no match either beyond its limit.
	if m.stars++; m.stars > maxStars {
		return false
	}
	m.behind, m.plain, m.from = m.p, m.p, m.s
	if i := bytes.IndexAny(m.p, `*?[\`); i >= 0 {
		m.plain = m.p[:i]
	} else if len(m.s) > len(m.p) { // only the end can fit
		m.from = m.s[len(m.s)-len(m.p):]
	}
	return m.findPlain()
}

// findPlain goes to the next place of m.from where the letters behind the star stand.
func (m *matcher) findPlain() bool {
	at := bytes.Index(m.from, m.plain)
	if at < 0 {
		return false
	}
	m.steps -= len(m.plain)
	m.from = m.from[at:]
	m.p, m.s = m.behind[len(m.plain):], m.from[len(m.plain):]
	return true
}

// one says whether the first element of p, which is no star, matches c, and how long the element is.
func one(p []byte, c byte) (n int, ok bool) {
	switch {
	case p[0] == '?':
		return 1, true
	case p[0] == '[':
		return class(p, c)
	case p[0] == '\\' && len(p) >= 2:
		return 2, p[1] == c
	}
	return 1, p[0] == c
}

// class is one for an element in brackets. Without the closing bracket the element goes on to the end.
func class(p []byte, c byte) (n int, ok bool) {
	i := 1
	not := i < len(p) && p[i] == '^'
	if not {
		i++
	}
	for i < len(p) && p[i] != ']' {
		switch left := len(p) - i; {
		case p[i] == '\\' && left >= 2:
			i++
			ok = ok || p[i] == c
		case left >= 3 && p[i+1] == '-':
			low, high := min(p[i], p[i+2]), max(p[i], p[i+2])
			ok = ok || low <= c && c <= high
			i += 2
		default:
			ok = ok || p[i] == c
		}
		i++
	}
	return min(i+1, len(p)), ok != not
}

// CanBegin says whether something that begins with prefix may match pattern. It
// may say so wrongly where the pattern goes on behind the prefix.
func CanBegin(pattern []byte, prefix string) bool {
	p := pattern
	for i := range len(prefix) {
		if len(p) == 0 {
			return false
		}
		if p[0] == '*' {
			return true
		}
		n, ok := one(p, prefix[i])
		if !ok {
			return false
		}
		p = p[n:]
	}
	return true
}
