package resp

import (
	"strconv"

	"github.com/tidwall/redcon"
)

// The functions below append the types of RESP3, which redcon's do not know, or their counterparts in RESP2.
// proto is the client's protocol, 2 or 3.

// AppendMap appends the header of a map of n pairs. RESP2: of an array of 2n.
func AppendMap(dst []byte, proto, n int) []byte {
	if proto < 3 {
		return redcon.AppendArray(dst, 2*n)
	}
	return appendHeader(dst, '%', n)
}

// AppendSet appends the header of a set of n elements. RESP2: of an array.
func AppendSet(dst []byte, proto, n int) []byte { return appendTyped(dst, proto, '~', n) }

// AppendPush appends the header of a push of n elements. RESP2: of an array.
func AppendPush(dst []byte, proto, n int) []byte { return appendTyped(dst, proto, '>', n) }

// appendTyped appends the header of n elements of a kind that only RESP3 has. RESP2: of an array.
func appendTyped(dst []byte, proto int, kind byte, n int) []byte {
	if proto < 3 {
		kind = '*'
	}
	return appendHeader(dst, kind, n)
}

// AppendNull appends Null. RESP2: the null bulk string.
func AppendNull(dst []byte, proto int) []byte { return append(dst, Null(proto)...) }

// AppendNullArray appends Null. RESP2: the null array.
func AppendNullArray(dst []byte, proto int) []byte {
	if proto < 3 {
		return append(dst, "*-1\r\n"...)
	}
	return append(dst, "_\r\n"...)
}

// AppendVerbatim appends text of the format txt. RESP2: a bulk string of the text. The length that goes in
// front counts the format and the colon, too.
func AppendVerbatim(dst []byte, proto int, text string) []byte {
	if proto < 3 {
		return redcon.AppendBulkString(dst, text)
	}
	dst = append(appendHeader(dst, '=', len("txt:")+len(text)), "txt:"...)
	return append(append(dst, text...), '\r', '\n')
}

// AppendCommand appends a command, as clients send it. An array of bulk strings is the only form that nodes
// are sent: no byte of an argument can end it.
func AppendCommand(dst []byte, args ...[]byte) []byte {
	dst = redcon.AppendArray(dst, len(args))
	for _, arg := range args {
		dst = redcon.AppendBulk(dst, arg)
	}
	return dst
}

// AppendCommandStrings is AppendCommand for strings.
func AppendCommandStrings(dst []byte, args ...string) []byte {
	return AppendBulks(redcon.AppendArray(dst, len(args)), args...)
}

func appendHeader(dst []byte, kind byte, n int) []byte {
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}
