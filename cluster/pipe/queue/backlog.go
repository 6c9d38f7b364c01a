package queue

import (
	"iter"

	"lockproxy/internal/loop"
)

// Backlog keeps the bytes of requests, in order, from when they are queued until they are answered:
//
//	[ answered | written, waiting for replies | to be written ]
//
// They lie in parts. Small requests are copied, one behind the other. Each large one stays in the memory
// that it came in, and so does one that is kept. No request lies in two parts.
type Backlog struct {
	parts [][]byte
	large bool // the last part is not our memory: nothing is copied behind it
	start int  // in the first part: where the oldest request begins
	at    int  // the part that is being written
	sent  int  // bytes of it that are written
	size  int  // of all requests
}

// Append adds req, which is copied if it is not larger than loop.Shared.
func (b *Backlog) Append(req []byte) {
	if len(req) > loop.Shared {
		b.Keep(req)
		return
	}
	b.size += len(req)
	last := len(b.parts) - 1
	if last < 0 || b.large {
		b.parts, b.large = append(b.parts, nil), false
		last++
	}
	part := b.parts[last]
	// The room of what is answered is used before the part grows. It is more than half, so that moving the
	// rest costs little.
	if last == 0 && len(part)+len(req) > cap(part) && b.start > len(part)/2 {
		part = part[:copy(part, part[b.start:])]
		b.sent -= b.start
		b.start = 0
	}
	b.parts[last] = append(part, req...)
}

// Keep adds req, which is not copied: nobody writes to it any more. Requests that lie one behind the
// other in one piece of memory become one part, and are written together.
func (b *Backlog) Keep(req []byte) {
	last := len(b.parts) - 1
	switch {
	case last >= 0 && b.large && continues(b.parts[last], req):
		b.parts[last] = b.parts[last][:len(b.parts[last])+len(req)]
	case last >= 0 && len(b.parts[last]) == 0:
		b.parts[last] = req
	default:
		b.parts = append(b.parts, req)
	}
	b.size += len(req)
	b.large = true
}

// continues says that req lies behind part, in the memory that part has.
func continues(part, req []byte) bool {
	n := len(part)
	return n > 0 && len(req) > 0 && cap(part) >= n+len(req) && &part[:n+1][n] == &req[0]
}

// Output is what is to be written next.
func (b *Backlog) Output() []byte {
	for ; b.at < len(b.parts); b.at, b.sent = b.at+1, 0 {
		if out := b.parts[b.at][b.sent:]; len(out) > 0 || b.at == len(b.parts)-1 {
			return out
		}
	}
	return nil
}

// Wrote notes that n bytes of Output are written.
func (b *Backlog) Wrote(n int) { b.sent += n }

// Size is how many bytes all requests have together.
func (b *Backlog) Size() int { return b.size }

// Oldest is the oldest request, which has size bytes. It may be overwritten by the
// next append unless it is larger than loop.Shared.
func (b *Backlog) Oldest(size int) []byte { return b.parts[0][b.start : b.start+size] }

// Written says that the oldest request, which has size bytes, is written in full.
func (b *Backlog) Written(size int) bool { return b.at > 0 || b.start+size <= b.sent }

// Unwritten is how many bytes are to be written.
func (b *Backlog) Unwritten() int {
	n := -b.sent
	for _, part := range b.parts[b.at:] {
		n += len(part)
	}
	return n
}

// Begun says that at least a part of the oldest request is written.
func (b *Backlog) Begun() bool { return b.at > 0 || b.sent > b.start }

// Pop removes the oldest request. At most keep bytes of memory are kept for re-use.
func (b *Backlog) Pop(size, keep int) {
	b.start += size
	b.size -= size
	switch {
	case b.start < len(b.parts[0]):
		return
	case len(b.parts) > 1:
		n := copy(b.parts, b.parts[1:])
		b.parts[n] = nil
		b.parts = b.parts[:n]
		if b.at--; b.at < 0 { // answered before it was written in full
			b.at, b.sent = 0, 0
		}
	case b.large || cap(b.parts[0]) > keep:
		*b = Backlog{}
	default:
		b.parts[0] = b.parts[0][:0]
		b.sent = 0
	}
	b.start = 0
}

// First are the n oldest requests, of which the i-th has size(i) bytes. They are valid as Oldest is.
func (b *Backlog) First(n int, size func(i int) int) iter.Seq[[]byte] {
	return func(yield func(req []byte) bool) {
		part, at := 0, b.start
		for i := range n {
			for at == len(b.parts[part]) {
				part, at = part+1, 0
			}
			if !yield(b.parts[part][at : at+size(i)]) {
				return
			}
			at += size(i)
		}
	}
}
