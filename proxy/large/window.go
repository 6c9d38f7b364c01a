// Package large is what is too large to be handled as everything else is: commands that a goroutine takes
// apart (LongCommand), and a window of commands under way that large replies make smaller (Window).
package large

const (
	// FirstWindow is how many commands of a client may at first be under way. The size of their replies is
	// not known beforehand, and all of them are kept for a client that reads none.
	FirstWindow = 16
	// lastWindow is how small the window gets for replies that pile up.
	lastWindow = 16
	// largeReply is the size from which on a reply shrinks the window at once, so that no more than
	// WindowBytes of such replies are under way.
	largeReply  = 64 << 10
	WindowBytes = 4 << 20
)

// Window bounds how many commands of one client are under way. It grows while replies are small and are read.
// It shrinks when they pile up, or are large.
type Window struct {
	Size int    // how many may be under way
	seen uint64 // bytes of all answers so far
}

// Answered notes one more answer in the output, which has had appended bytes in all, and returns its size.
func (w *Window) Answered(appended uint64) (n uint64) {
	if n = appended - w.seen; n > largeReply {
		w.Size = min(w.Size, max(int(WindowBytes/n), 1))
	}
	w.seen = appended
	return n
}

// Adjust adjusts the window of a client that has filled it, up to most.
func (w *Window) Adjust(read bool, most int) {
	switch {
	case read:
		w.Size = min(2*w.Size, most)
	case w.Size > lastWindow:
		w.Size = max(w.Size/2, lastWindow)
	}
}
