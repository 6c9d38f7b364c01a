package resp

// IsWord says whether arg is the word, which is in capitals, in any case.
func IsWord(arg []byte, word string) bool {
	if len(arg) != len(word) {
		return false
	}
	for i, b := range arg {
		// anything below 'a' wraps, and is above 26
		if b-'a' < 26 {
			b &^= 0x20
		}
		if b != word[i] {
			return false
		}
	}
	return true
}
