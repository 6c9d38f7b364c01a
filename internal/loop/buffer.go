package loop

// smallBuffer is the size of the buffers that a loop keeps for re-use. A
// pipeline of ordinary commands and their replies fits in.
const smallBuffer = 16 << 10

// tinyBuffer is the size of the buffers for single replies that came before
// their turn.
const tinyBuffer = 512

// bigBuffer is the size of the buffers that follow on those of smallBuffer, for long
// replies and for many messages at once.
const bigBuffer = 64 << 10

// maxSpare, maxTiny and maxBig bound how many of them are kept, 4 MiB of each.
const (
	maxSpare = 256
	maxTiny  = 8192
	maxBig   = 64
)

// chunkSize is the size of the pieces in which what does not fit into a buffer of bigBuffer waits.
const chunkSize = 256 << 10

// Buffer is a queue of bytes: appended at the end, taken from the front. While
// empty it holds no memory; the buffers of ordinary size go round among the connections of
// a loop. What is longer lies in chunks, so that nothing is copied while it grows, and
// each is given up as soon as it is taken.
type Buffer struct {
	b      []byte
	start  int
	chunks [][]byte // behind b
	more   int      // bytes in chunks
	room   int      // that chunks have memory for
}

// Len is how many bytes wait.
func (b *Buffer) Len() int { return len(b.b) - b.start + b.more }

// Cap is how much memory it holds.
func (b *Buffer) Cap() int { return cap(b.b) + b.room }

// Bytes are the first of the bytes that wait, as many as lie in one piece, valid until the next call.
func (b *Buffer) Bytes() []byte { return b.b[b.start:] }

// Append adds p, which is copied.
func (b *Buffer) Append(l *Loop, p []byte) {
	if b.more > 0 || len(b.b)+len(p) > cap(b.b) && !b.makeRoom(l, len(p)) {
		b.appendChunks(p)
		return
	}
	b.b = append(b.b, p...)
}

// Adopt adds p, which is not copied: nobody may write to it any more. It is larger than Shared.
func (b *Buffer) Adopt(l *Loop, p []byte) {
	p = p[:len(p):len(p)]
	if b.Len() == 0 {
		l.Put(b.b)
		b.b, b.start = p, 0
		return
	}
	b.chunks = append(b.chunks, p)
	b.more += len(p)
	b.room += len(p)
}

// makeRoom sees to it that n more bytes fit in one piece: at the front, or in a larger buffer. false: chunks
// are needed.
func (b *Buffer) makeRoom(l *Loop, n int) bool {
	waiting := b.b[b.start:]
	// else others may read it
	if b.start > len(b.b)/2 && len(waiting)+n <= cap(b.b) && cap(b.b) <= bigBuffer {
		b.b, b.start = b.b[:copy(b.b, waiting)], 0
		return true
	}
	var larger []byte
	switch need := len(waiting) + n; {
	case need <= smallBuffer:
		larger = take(&l.small, smallBuffer)
	case need <= bigBuffer:
		larger = take(&l.big, bigBuffer)
	case len(waiting) > 0:
		return false
	default:
		larger = make([]byte, 0, max(n, chunkSize))
	}
	larger = append(larger, waiting...)
	l.Put(b.b)
	b.b, b.start = larger, 0
	return true
}

// appendChunks adds p behind b.
func (b *Buffer) appendChunks(p []byte) {
	b.more += len(p)
	size := chunkSize
	if last := len(b.chunks) - 1; last >= 0 {
		c := b.chunks[last]
		size = min(size, cap(c)) // there may be little between the ones that were adopted
		n := min(cap(c)-len(c), len(p))
		b.chunks[last] = append(c, p[:n]...)
		p = p[n:]
	}
	if len(p) > 0 {
		c := append(make([]byte, 0, max(len(p), size)), p...)
		b.chunks = append(b.chunks, c)
		b.room += cap(c)
	}
}

// Take removes the first n bytes, which lie in one piece.
func (b *Buffer) Take(l *Loop, n int) {
	b.start += n
	if b.start < len(b.b) {
		return
	}
	l.Put(b.b)
	b.b, b.start = nil, 0
	if len(b.chunks) == 0 {
		return
	}
	b.b = b.chunks[0]
	b.chunks[0] = nil
	b.chunks = b.chunks[1:]
	b.more -= len(b.b)
	b.room -= cap(b.b)
	if len(b.chunks) == 0 {
		b.chunks = nil
	}
}

// Free drops all bytes.
func (b *Buffer) Free(l *Loop) {
	l.Put(b.b)
	*b = Buffer{}
}

// get returns an empty buffer with room for n bytes.
func (l *Loop) get(n int) []byte {
	if n > smallBuffer {
		return make([]byte, 0, n)
	}
	return take(&l.small, smallBuffer)
}

// Keep appends b to kept, a buffer that Keep made or nil.
func (l *Loop) Keep(kept, b []byte) []byte {
	if kept == nil && len(b) <= tinyBuffer {
		kept = take(&l.tiny, tinyBuffer)
	}
	return append(kept, b...)
}

// Put takes a buffer back; those of ordinary sizes are used again.
func (l *Loop) Put(b []byte) {
	switch {
	case cap(b) == smallBuffer && len(l.small) < maxSpare:
		l.small = append(l.small, b)
	case cap(b) == tinyBuffer && len(l.tiny) < maxTiny:
		l.tiny = append(l.tiny, b)
	case cap(b) == bigBuffer && len(l.big) < maxBig:
		l.big = append(l.big, b)
	}
}

// take returns an empty buffer of size bytes, a spare one if there is any.
func take(spare *[][]byte, size int) []byte {
	if last := len(*spare) - 1; last >= 0 {
		b := (*spare)[last]
		*spare = (*spare)[:last]
		return b[:0]
	}
	return make([]byte, 0, size)
}
