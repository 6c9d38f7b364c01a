package resp

// whole is the short way through InputGuard.Next for nearly every command: the size
// of the multibulk command that buf starts with, if all of it is there and
// nothing about it is out of the ordinary; else 0, and Next looks closely. args
// are its arguments, if dst has room for them.
func whole(buf []byte, lim *Limits, dst [][]byte) (n int, args [][]byte) {
	if len(buf) < 4 || buf[0] != '*' {
		return 0, nil
	}
	left, pos := int(buf[1]-'0'), 4
	if left > 9 || buf[2] != '\r' || buf[3] != '\n' {
		left, pos = number(buf, 1)
	}
	if pos == 0 || left > lim.Args {
		return 0, nil
	}
	fits := left <= cap(dst)
	args = dst[:0]
	// A command that is too long, or whose end has not come, is out of the ordinary, too: who looks closely
	// says which.
	maxBulk, maxEnd := lim.Bulk, min(len(buf), lim.Command)
	for ; left > 0; left-- {
		if pos+5 > maxEnd {
			return 0, nil
		}
		head := buf[pos : pos+5]
		if head[0] != '$' {
			return 0, nil
		}
		// One digit, most likely: "$3\r\n".
		size, start := int(head[1]-'0'), pos+4
		if size > 9 {
			return 0, nil
		}
		if head[2] != '\r' || head[3] != '\n' {
			// Two digits are worth their own branch: most keys have them.
			digit := int(head[2] - '0')
			if size > 0 && digit <= 9 && head[3] == '\r' && head[4] == '\n' {
				size, start = 10*size+digit, pos+5
			} else if size, start = number(buf, pos+1); start == 0 {
				return 0, nil
			}
		}
		pos = start + size + 2
		if size > maxBulk || pos > maxEnd || buf[pos-2] != '\r' || buf[pos-1] != '\n' {
			return 0, nil
		}
		if fits {
			args = append(args, buf[start:start+size])
		}
	}
	if !fits {
		args = nil
	}
	return pos, args
}
