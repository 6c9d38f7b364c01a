package tool

// Nearest is the one of words that was most likely meant by typed, "" if none is like it.
func Nearest(typed string, words []string) string {
	best, least := "", 1+len(typed)/3
	for _, word := range words {
		if d := distance(typed, word); d < least {
			best, least = word, d
		}
	}
	return best
}

// distance is how many letters must be put in, taken out, changed or swapped with the next to make b of a.
func distance(a, b string) int {
	var before []int // the row before the last
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
