package page

import (
	"fmt"
	"strings"
)

// Table is a markdown table; its first row is the head.
type Table [][]string

func (t Table) String() string {
	widths := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var b strings.Builder
	for i, row := range t {
		for j, cell := range row {
			pad := strings.Repeat(" ", widths[j]-len([]rune(cell)))
			if j == 0 {
				fmt.Fprintf(&b, "| %s%s ", cell, pad)
			} else {
				fmt.Fprintf(&b, "| %s%s ", pad, cell)
			}
		}
		b.WriteString("|\n")
		if i == 0 {
			for j, width := range widths {
				b.WriteString("|" + strings.Repeat("-", width+1))
				if j == 0 {
					b.WriteString("-")
				} else {
					b.WriteString(":") // numbers: to the right
				}
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}
