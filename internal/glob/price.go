package glob

// Price is how many bytes of pattern Redis may compare for each byte of a name, at worst: the longest stretch
// behind a star, where it begins anew at each place of the name, or the longest brackets before the first
// star. Times the bytes of the names it bounds what a match costs a server, also one that does not go back to
// earlier stars.
func Price(pattern []byte) int {
	most, stretch, starred := 0, 0, false
	for len(pattern) > 0 {
		if pattern[0] == '*' {
			pattern, stretch, starred = pattern[1:], 0, true
			continue
		}
		n, _ := one(pattern, 0)
		if starred {
			stretch += n
		} else if stretch = 0; pattern[0] == '[' {
			stretch = n
		}
		most = max(most, stretch)
		pattern = pattern[n:]
	}
	return most
}
