package resp

import (
	"fmt"

	"github.com/tidwall/redcon"
)

// They are shared by all goroutines: nobody appends to them or writes into them.
// Whole replies that never change.
var (
	OK         = []byte("+OK\r\n")
	EmptyArray = []byte("*0\r\n")
	Zero       = []byte(":0\r\n")
	One        = []byte(":1\r\n")

	replyNull2 = []byte("$-1\r\n")
	replyNull3 = []byte("_\r\n")

	ErrSyntax     = []byte("-ERR syntax error\r\n")
	ErrInteger    = []byte("-ERR value is not an integer or out of range\r\n")
	ErrUnexpected = []byte("-ERR the upstream answered in a form that lockproxy does not expect\r\n")
)

// Null is Null.
func Null(proto int) []byte {
	if proto < 3 {
		return replyNull2
	}
	return replyNull3
}

// MaxQuoted is how many bytes of one argument an error repeats.
const MaxQuoted = 16 << 10

// ErrorLine is an error reply of one line, whatever bytes the arguments bring, and however many.
func ErrorLine(format string, args ...any) []byte {
	for i, arg := range args {
		switch arg := arg.(type) {
		case []byte:
			args[i] = Shortened(arg, MaxQuoted)
		case string:
			args[i] = Shortened(arg, MaxQuoted)
		}
	}
	// A line break in an argument would end the reply, and what stands behind it would be taken for the next
	// one. All other bytes stay as they are, as in Redis, whether they are UTF-8 or not.
	line := fmt.Appendf([]byte("-"), format, args...)
	for i, b := range line {
		if b == '\r' || b == '\n' {
			line[i] = ' '
		}
	}
	return append(line, "\r\n"...)
}

// Shortened is arg, if that is not longer than most; otherwise its first most bytes, and how many follow.
func Shortened[T []byte | string](arg T, most int) T {
	if len(arg) <= most {
		return arg
	}
	return T(fmt.Appendf(nil, "%s... (%d more bytes)", arg[:most], len(arg)-most))
}

// AppendBulks appends texts as bulk strings.
func AppendBulks(dst []byte, texts ...string) []byte {
	for _, text := range texts {
		dst = redcon.AppendBulkString(dst, text)
	}
	return dst
}

// AppendInts appends integers.
func AppendInts[N int | int64](dst []byte, all ...N) []byte {
	for _, n := range all {
		dst = redcon.AppendInt(dst, int64(n))
	}
	return dst
}

// AppendNumber appends a pair of a map: a name, and a number.
func AppendNumber[N int | int64](dst []byte, name string, n N) []byte {
	return AppendInts(AppendBulks(dst, name), n)
}

// Clip keeps errors short.
func Clip(v []byte) string {
	if len(v) > 64 {
		return string(v[:64]) + "..."
	}
	return string(v)
}

// Truth is 1 or 0: RESP2 has no booleans.
func Truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
