package commands

// isWord says whether arg is the word, which is in capitals, in any case.
func isWord(arg []byte, word string) bool {
	if len(arg) != len(word) {
		return false
	}
	for i, b := range arg {
		if b-'a' < 26 {
			b &^= 0x20
		}
		if b != word[i] {
			return false
		}
	}
	return true
}

// printable says that b can stand in a line of CLIENT INFO.
func printable(b []byte) bool {
	for _, c := range b {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}

func errName(what string) []byte {
	return errorLine("ERR %s cannot contain spaces, newlines or special characters.", what)
}
