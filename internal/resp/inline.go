package resp

import (
	"bytes"
	"strconv"
	"strings"
)

// line is an inline command without its line end, which is LF or CRLF. Inline commands are what people type
// into telnet or nc (Redis protocol specification, inline commands).
func line(cmd []byte) []byte {
	cmd = bytes.TrimSuffix(cmd, []byte{'\n'})
	return bytes.TrimSuffix(cmd, []byte{'\r'})
}

// checkWords says whether words can split line. It allocates nothing, so a guard can ask before anybody
// splits.
func checkWords(line []byte) error {
	if bytes.IndexByte(line, 0) >= 0 {
		return errNUL
	}
	for {
		word, _, rest, ok := nextWord(line)
		if !ok {
			return errQuotes
		}
		if word == nil {
			return nil
		}
		line = rest
	}
}

// words appends the words of line to dst. Words without quotes alias line.
//
// It splits as Redis's sdssplitargs does: words stand between spaces, TABs and
// CRs; in "..." \n \r \t \b \a \xHH are bytes and a backslash takes any other
// byte as it is; in '...' only \' is special; a closing quote ends its word.
func words(line []byte, dst [][]byte) ([][]byte, error) {
	if err := checkWords(line); err != nil {
		return dst, err
	}
	var bare []byte // the bytes of quoted words; never longer than line
	for {
		word, quoted, rest, _ := nextWord(line)
		if word == nil {
			return dst, nil
		}
		if quoted {
			if bare == nil {
				bare = make([]byte, 0, len(line))
			}
			// bare never grows beyond the capacity that it has, so words that were cut from it before stay
			// where they are.
			start := len(bare)
			bare = unquote(bare, word)
			word = bare[start:len(bare):len(bare)]
		}
		dst = append(dst, word)
		line = rest
	}
}

// nextWord cuts the first word off line, with its quotes; quoted says that it
// has some. word is nil at the end of line. Unbalanced quotes are not ok.
func nextWord(line []byte) (word []byte, quoted bool, rest []byte, ok bool) {
	start := 0
	for start < len(line) && isSpace(line[start]) {
		start++
	}
	if start == len(line) {
		return nil, false, nil, true
	}
	for i := start; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\n', '\r', '\t': // fewer than isSpace knows: Redis is like that
			return line[start:i], false, line[i:], true
		case '"', '\'':
			end := closingQuote(line, i)
			if end < 0 || end+1 < len(line) && !isSpace(line[end+1]) {
				return nil, true, nil, false
			}
			return line[start : end+1], true, line[end+1:], true
		}
	}
	return line[start:], false, nil, true
}

// closingQuote is where the quotes that open at line[i] close, -1: nowhere.
func closingQuote(line []byte, i int) int {
	quote := line[i]
	for i++; i < len(line); i++ {
		switch {
		case line[i] == quote:
			return i
		// In '...' a backslash hides the quote alone.
		case line[i] == '\\' && (quote == '"' || i+1 < len(line) && line[i+1] == '\''):
			i++
		}
	}
	return -1
}

// unquote appends the meaning of word, which nextWord has cut, to dst. It is never longer than word.
func unquote(dst, word []byte) []byte {
	open := bytes.IndexAny(word, `"'`)
	dst = append(dst, word[:open]...)
	quote, word := word[open], word[open+1:len(word)-1]
	for i := 0; i < len(word); i++ {
		c := word[i]
		switch {
		case c != '\\':
		case quote == '\'':
			if i+1 < len(word) && word[i+1] == '\'' {
				i++
				c = '\''
			}
		default:
			i++
			if c = escaped(word[i]); c == 'x' && i+2 < len(word) {
				if code, err := strconv.ParseUint(string(word[i+1:i+3]), 16, 8); err == nil {
					c = byte(code)
					i += 2
				}
			}
		}
		dst = append(dst, c)
	}
	return dst
}

// escaped is what a backslash and c stand for.
func escaped(c byte) byte {
	if i := strings.IndexByte("nrtba", c); i >= 0 {
		return "\n\r\t\b\a"[i]
	}
	return c
}

// isSpace is C's isspace.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
