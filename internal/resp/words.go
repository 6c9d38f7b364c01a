package resp

import "bytes"

// IsWord says whether arg is the word, which is ASCII, in any case. Letters beyond ASCII that Unicode takes
// for one of its letters have more bytes.
func IsWord(arg []byte, word string) bool {
	return len(arg) == len(word) && bytes.EqualFold(arg, []byte(word))
}
