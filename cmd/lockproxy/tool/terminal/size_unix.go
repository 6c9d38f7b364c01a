//go:build unix

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// size asks the terminal; ok is false if f is none. A terminal without a size, as in some containers, has 0
// columns.
func size(f *os.File) (width, height int, ok bool) {
	window, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, false
	}
	return int(window.Col), int(window.Row), true
}
