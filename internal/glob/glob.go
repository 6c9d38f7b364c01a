// Package glob matches patterns as Redis does: * ? [a-c] [^x] and \ before any of them.
package glob

// Match says whether all of s matches pattern, in every odd case as Redis's own function
// decides it (util.c, stringmatchlen), which tells cases apart here. It takes at most
// len(pattern) times len(s) steps for each run of stars, whatever the pattern.
func Match(pattern, s []byte) bool {
	hopeless := false
	return match(pattern, s, &hopeless)
}

// match is Match for the rest of a pattern. hopeless is set once it is known that
// no earlier star can help by taking more of s.
func match(p, s []byte, hopeless *bool) bool {
	for len(p) > 0 && len(s) > 0 {
		if p[0] == '*' {
			for len(p) > 1 && p[1] == '*' {
				p = p[1:]
			}
			if len(p) == 1 {
				return true
			}
			for ; len(s) > 0; s = s[1:] {
				if match(p[1:], s, hopeless) {
					return true
				}
				if *hopeless {
					return false
				}
			}
			*hopeless = true
			return false
		}
		n, ok := one(p, s[0])
		if !ok {
			return false
		}
		p, s = p[n:], s[1:]
		if len(s) == 0 {
			for len(p) > 0 && p[0] == '*' {
				p = p[1:]
			}
		}
	}
	return len(p) == 0 && len(s) == 0
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

// class is one for an element in brackets; without the closing one it goes to the end.
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
