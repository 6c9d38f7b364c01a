package resp

import "strconv"

// maxDigits is how many digits always fit into an int: 18, or 9 where it has 32
// bits.
const maxDigits = 9 << (^uint(0) >> 63)

// number reads a natural number and the CRLF behind it at buf[i:]. next is where the CRLF ends, or 0 when the
// bytes are anything but a whole, plain number: incomplete, signed, with a leading zero, too long. Redis
// takes some of the others too (string2ll), so whoever gets 0 looks again with Integer, or waits for more.
func number(buf []byte, i int) (n, next int) {
	start := i
	for ; i < len(buf); i++ {
		// below '0' it wraps to a number above 9
		d := buf[i] - '0'
		if d > 9 {
			break
		}
		n = n*10 + int(d)
	}
	digits := i - start
	if digits == 0 || digits > maxDigits || digits > 1 && buf[start] == '0' ||
		i+1 >= len(buf) || buf[i] != '\r' || buf[i+1] != '\n' {
		return 0, 0
	}
	return n, i + 2
}

// Integer reads b as Redis's string2ll does: no plus sign, no leading zeros, no
// "-0", no spaces, within an int64.
func Integer(b []byte) (n int64, ok bool) {
	digits := b
	if len(b) > 1 && b[0] == '-' {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] < '0' || digits[0] > '9' ||
		digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}
