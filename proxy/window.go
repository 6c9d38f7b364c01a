package proxy

const (
	// firstWindow is how many commands of a client may at first be under way. The size of their replies is
	// not known beforehand, and all of them are kept for a client that reads none.
	firstWindow = 16
	// lastWindow is how small the window gets for replies that pile up.
	lastWindow = 16
	// largeReply is the size from which on a reply shrinks the window at once, so that no more than
	// windowBytes of such replies are under way.
	largeReply  = 64 << 10
	windowBytes = 4 << 20
)

// window bounds how many commands of one client are under way. It grows while replies are small and are read.
// It shrinks when they pile up, or are large.
type window struct {
	size int
	seen uint64 // bytes of all answers so far
}

// answered notes one more answer in the output, which has had appended bytes in all, and returns its size.
func (w *window) answered(appended uint64) (n uint64) {
	if n = appended - w.seen; n > largeReply {
		w.size = min(w.size, max(int(windowBytes/n), 1))
	}
	w.seen = appended
	return n
}

// turn adjusts the window of a client that has filled it, up to most.
func (w *window) turn(read bool, most int) {
	switch {
	case read:
		w.size = min(2*w.size, most)
	case w.size > lastWindow:
		w.size = max(w.size/2, lastWindow)
	}
}
