package loop

// sizes are those of the buffers that a loop keeps for re-use: for single replies, for replies of a kilobyte,
// for a pipeline of ordinary commands and their replies, and for long replies or many messages at once.
var sizes = [...]int{512, 2 << 10, 16 << 10, largest}

// largest is the size of the largest of them.
const largest = 64 << 10

// spareBytes bounds the memory of the buffers of each size that are kept. That is 8192 buffers of the
// smallest and 64 of the largest, for each loop.
const spareBytes = 4 << 20

// chunkSize is the size of the chunks for what does not fit into the largest buffer.
const chunkSize = 256 << 10

// Buffer is a queue of bytes: appended at the end, taken from the front. It holds no memory while empty; the
// connections of a loop share buffers of ordinary size. It begins with one that would have been large enough
// the last time, so that what comes in pieces is rarely copied into a larger one. What is longer lies in
// chunks, so nothing is copied while it grows, and each chunk is given up as soon as it is taken. It belongs
// to the connection of a loop, which is passed to each call because the spare buffers are the loop's. The
// zero Buffer is empty and ready.
type Buffer struct {
	b      []byte
	start  int
	chunks [][]byte // behind b
	more   int      // bytes in chunks
	room   int      // capacity of chunks
	usual  int      // how many bytes b had when it was taken in full last
}

// Len is how many bytes wait.
func (b *Buffer) Len() int { return len(b.b) - b.start + b.more }

// Cap is how much memory it holds.
func (b *Buffer) Cap() int { return cap(b.b) + b.room }

// Bytes are the first of the bytes that wait, as many as lie in one piece, valid until the next call. With
// chunks there is more behind them: take these, and ask again.
func (b *Buffer) Bytes() []byte { return b.b[b.start:] }

// Append adds p, which is copied.
func (b *Buffer) Append(l *Loop, p []byte) {
	if b.more > 0 || len(b.b)+len(p) > cap(b.b) && !b.makeRoom(l, len(p)) {
		b.appendChunks(p)
		return
	}
	b.b = append(b.b, p...)
}

// Adopt adds p, which is not copied: nobody may write to it any more. It is larger than Shared. A long reply
// is passed on as it was read, so a megabyte is not copied for each client that gets it.
func (b *Buffer) Adopt(l *Loop, p []byte) {
	// Behind p is memory of somebody else, into which a later Append must not write.
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

// makeRoom makes n more bytes fit in one piece: at the front, or in a larger buffer. false: chunks are
// needed.
func (b *Buffer) makeRoom(l *Loop, n int) bool {
	waiting := b.b[b.start:]
	// A buffer above largest may be one that was adopted, and others may read it.
	if b.start > len(b.b)/2 && len(waiting)+n <= cap(b.b) && cap(b.b) <= largest {
		b.b, b.start = b.b[:copy(b.b, waiting)], 0
		return true
	}
	var larger []byte
	switch need := len(waiting) + n; {
	case need <= largest:
		larger = l.getBuffer(max(need, b.usual))
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
		size = min(size, cap(c)) // chunks between adopted ones may be small
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
	// So the next burst begins with a buffer of this one's size, and does not grow into it step by step.
	b.usual = min(len(b.b), largest)
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
	// the slice still holds the array of all chunks that there were
	if len(b.chunks) == 0 {
		b.chunks = nil
	}
}

// Free drops all bytes.
func (b *Buffer) Free(l *Loop) {
	l.Put(b.b)
	*b = Buffer{}
}

// getBuffer returns an empty buffer with room for n bytes, a spare one if there is any.
func (l *Loop) getBuffer(n int) []byte {
	for i, size := range sizes {
		if n > size {
			continue
		}
		spare := l.spares[i]
		last := len(spare) - 1
		if last < 0 {
			return make([]byte, 0, size)
		}
		l.spares[i] = spare[:last]
		return spare[last][:0]
	}
	return make([]byte, 0, n)
}

// Keep appends b to kept, a buffer that Keep made or nil.
func (l *Loop) Keep(kept, b []byte) []byte {
	if n := len(kept) + len(b); n > cap(kept) && n <= largest {
		larger := append(l.getBuffer(n), kept...)
		l.Put(kept)
		kept = larger
	}
	return append(kept, b...)
}

// Put takes a buffer back; those of ordinary sizes are used again.
func (l *Loop) Put(b []byte) {
	// The capacity says which class a buffer is of. One of another capacity is not of the loop's making, and
	// is left to the garbage collector.
	for i, size := range sizes {
		if cap(b) == size && len(l.spares[i]) < spareBytes/size {
			l.spares[i] = append(l.spares[i], b)
		}
	}
}
