package proxy

const (
	// firstWindow is how many commands of a client may be on their way at first. How large their replies are
	// is not known before they come, and a client that reads none of them has all of them kept.
	firstWindow = 16
	// lastWindow is how small the window gets for replies that pile up.
	lastWindow = 16
	// largeReply is from what size on a reply makes the window smaller at once, so that no more than
	// windowBytes of such replies are on their way.
	largeReply  = 64 << 10
	windowBytes = 4 << 20
)

// window is how many commands of one client may be on their way. It grows while replies are small and are
// read, and shrinks when they pile up, or are large.
type window struct {
	size int
	seen uint64 // bytes of all answers so far
}

// answered notes that one answer more is with the output, which has had so many bytes in all.
func (w *window) answered(appended uint64) {
	if n := appended - w.seen; n > largeReply {
		w.size = min(w.size, max(int(windowBytes/n), 1))
	}
	w.seen = appended
}

// turn makes the window of a client that has filled it larger or smaller, up to most.
func (w *window) turn(read bool, most int) {
	switch {
	case read:
		w.size = min(2*w.size, most)
	case w.size > lastWindow:
		w.size = max(w.size/2, lastWindow)
	}
}
