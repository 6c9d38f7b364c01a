package glob

// Price is how many bytes of pattern Redis may compare with each byte of a name, at worst: what a match costs
// a server, also one that does not go back to earlier stars, is the price times the bytes of the name.
//
// Behind a star Redis begins anew at each place of the name. So many places may compare the same byte as
// there are beginnings of the pattern's text that end alike: "*aaaa" costs 4, "*:done" 2. Text with ? or
// brackets in it is taken to cost its length, and so are brackets before the first star.
func Price(pattern []byte) int {
	most, stretch := 0, stretch{}
	for starred := false; len(pattern) > 0; {
		if pattern[0] == '*' {
			pattern, stretch, starred = pattern[1:], stretch.anew(), true
			continue
		}
		n, _ := one(pattern, 0)
		switch {
		case starred:
			most = max(most, stretch.addElement(pattern[:n]))
		case pattern[0] == '[':
			most = max(most, n)
		}
		pattern = pattern[n:]
	}
	return most
}

// stretch is a part of a pattern between two stars. While it is plain text, borders[i] is how many of its
// first letters are also the last of its first i, and depths[i] how many such beginnings there are, and those
// of them, and so on.
type stretch struct {
	text            []byte
	borders, depths []int
	bytes           int
	varies          bool // it is more than plain text
}

func (s stretch) anew() stretch {
	return stretch{text: s.text[:0], borders: s.borders[:0], depths: s.depths[:0]}
}

// addElement adds an element, and returns what the stretch costs so far.
func (s *stretch) addElement(element []byte) int {
	s.bytes += len(element)
	if s.varies = s.varies || element[0] == '?' || element[0] == '['; s.varies {
		return s.bytes
	}
	n, letter := len(s.text), element[len(element)-1]
	s.text = append(s.text, letter)
	if n == 0 {
		s.borders, s.depths = append(s.borders, 0, 0), append(s.depths, 0, 1)
		return 1
	}
	border := s.borders[n]
	for border > 0 && s.text[border] != letter {
		border = s.borders[border]
	}
	if s.text[border] == letter {
		border++
	}
	s.borders, s.depths = append(s.borders, border), append(s.depths, 1+s.depths[border])
	return 1 + s.depths[n] // whatever has matched so far, and the place itself
}
