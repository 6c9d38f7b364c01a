package tool

import (
	"slices"

	"github.com/spf13/cobra"
)

// longestTyped is how long a name may be for which a likely one is looked for. None is longer, and the search
// takes time with the square of the length: a file that is no text may have one word.
const longestTyped = 64

// Nearest is the one of words that was most likely meant by typed, "" if none is like it.
func Nearest(typed string, words []string) string {
	if len(typed) < 2 || len(typed) > longestTyped {
		return ""
	}
	all := new(cobra.Command)
	for _, word := range words {
		all.AddCommand(&cobra.Command{Use: word, Run: func(*cobra.Command, []string) {}})
	}
	// As few wrong letters as possible: the first distance with a result counts.
	for most := range 2 + len(typed)/4 { // letters that may be wrong
		all.SuggestionsMinimumDistance = most
		if near := all.SuggestionsFor(typed); len(near) > 0 {
			return slices.MinFunc(near, func(a, b string) int { return len(a) - len(b) })
		}
	}
	return ""
}
