package tool

import (
	"fmt"
	"os"
	"strings"
)

// state is the letter of a process: R, S, T (stopped), Z (ended, and nobody has asked how); "" if there is
// none.
func state(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	letter, _, _ := strings.Cut(rest, " ")
	return letter
}
