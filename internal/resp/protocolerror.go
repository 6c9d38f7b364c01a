package resp

// ProtocolError says what is wrong with the bytes of a client, in Redis's own
// words where Redis has words for it. The client's connection cannot be used
// any further: the error is its last reply.
type ProtocolError string

// Error is the line of the error reply without its '-' and line end.
func (e ProtocolError) Error() string { return "ERR Protocol error: " + string(e) }

// What clients do wrong. Redis's networking.c has the same strings, but for the
// last three: it closes in silence on a command that is too big, waits for ever
// for the end of an inline command with a NUL byte, and takes any two bytes for a
// line end, as Valkey did until 9.
const (
	errInlineSize  ProtocolError = "too big inline request"
	errQuotes      ProtocolError = "unbalanced quotes in request"
	errCountLine   ProtocolError = "too big mbulk count string"
	errCount       ProtocolError = "invalid multibulk length"
	errCountNoAuth ProtocolError = "unauthenticated multibulk length"
	errSizeLine    ProtocolError = "too big bulk count string"
	errSize        ProtocolError = "invalid bulk length"
	errSizeNoAuth  ProtocolError = "unauthenticated bulk length"
	errCommandSize ProtocolError = "too big command"
	errCRLF        ProtocolError = "invalid CRLF in request"
	errNUL         ProtocolError = "NUL byte in inline request"
)

// errNoDollar says that an argument starts with c instead of '$'.
func errNoDollar(c byte) ProtocolError {
	if c == '\r' || c == '\n' {
		c = ' ' // a reply is one line
	}
	return ProtocolError("expected '$', got '" + string([]byte{c}) + "'")
}
