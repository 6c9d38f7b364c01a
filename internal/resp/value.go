package resp

import "errors"

// maxDepth is how deep a value that Parse decodes may be nested. Parse calls itself for each level, and a
// goroutine's stack has an end. Redis's own replies have a handful of levels.
const maxDepth = 128

// What Parse says besides ErrReply.
var (
	ErrIncomplete = errors.New("resp: incomplete reply")
	ErrDepth      = errors.New("resp: reply is nested too deep")
)

// Value is one decoded reply. It aliases the bytes that it was decoded from: copy what outlives them.
type Value struct {
	Kind  byte    // the type byte: '+', '-', ':', '$', '*', '_', '#', ',', '(', '!', '=', '%', '~' or '>'
	Str   []byte  // text of strings, errors and numbers, without the format of a '='; aliases the input
	Int   int64   // ':': the integer; '#': 1 or 0; with a length: that length, -1: null
	Elems []Value // elements; those of a map of n pairs are 2n
}

// Parse decodes the reply that b starts with; rest is what follows it.
// Attributes are left out. Besides ErrReply the errors are ErrIncomplete and
// ErrDepth. Memory grows with len(b), whatever lengths b declares.
func Parse(b []byte) (v Value, rest []byte, err error) {
	// A whole reply holds all the elements that it declares.
	var f Framer
	n, done, err := f.Next(b)
	if err != nil {
		return Value{}, b, err
	}
	if !done {
		return Value{}, b, ErrIncomplete
	}
	v, _, err = parseValue(b[:n], 0)
	if err != nil {
		return Value{}, b, err
	}
	return v, b[n:], nil
}

// parseValue decodes the first value of b, which a Framer let through.
func parseValue(b []byte, depth int) (v Value, rest []byte, err error) {
	if depth > maxDepth {
		return Value{}, nil, ErrDepth
	}
	end := lineEnd(b, 1)
	v.Kind = b[0]
	v.Str = b[1 : end-2 : end-2]
	rest = b[end:]
	switch v.Kind {
	case '+', '-', ',', '(':
		return v, rest, nil
	case '_':
		v.Str = nil
		return v, rest, nil
	case '#':
		if v.Str[0] == 't' {
			v.Int = 1
		}
		v.Str = nil
		return v, rest, nil
	}
	v.Int, _ = Integer(v.Str)
	switch v.Kind {
	case ':':
		return v, rest, nil
	case '$', '!', '=':
		return parseBulk(v, rest)
	}
	v.Str = nil
	n := v.Int
	if v.Kind == '%' || v.Kind == '|' {
		n *= 2
	}
	// The Framer has seen all n of them, so the memory is bounded by the input.
	if n > 0 {
		v.Elems = make([]Value, n)
	}
	for i := range v.Elems {
		if v.Elems[i], rest, err = parseValue(rest, depth+1); err != nil {
			return Value{}, nil, err
		}
	}
	// an attribute is about the value behind it, which stands in its place
	if v.Kind == '|' {
		return parseValue(rest, depth+1)
	}
	return v, rest, nil
}

// parseBulk takes the bytes of v, whose length is read.
func parseBulk(v Value, b []byte) (Value, []byte, error) {
	if v.Int < 0 {
		v.Str = nil
		return v, b, nil
	}
	v.Str = b[:v.Int:v.Int]
	if v.Kind == '=' {
		// three letters and a colon, "txt:"
		if v.Int < 4 || v.Str[3] != ':' {
			return Value{}, nil, ErrReply
		}
		v.Str = v.Str[4:]
	}
	return v, b[v.Int+2:], nil
}

// Null says whether v is Null in any of its three forms.
func (v Value) Null() bool {
	return v.Kind == '_' || v.Int == -1 && (v.Kind == '$' || v.Kind == '*')
}

// IsError says that the reply is an error.
func (v Value) IsError() bool { return v.Kind == '-' || v.Kind == '!' }

// Err is the text of an error reply without the '-', "" of any other reply.
func (v Value) Err() string {
	if v.IsError() {
		return string(v.Str)
	}
	return ""
}

// Text is the text of strings, errors and numbers, "" of anything else.
func (v Value) Text() string {
	return string(v.Str)
}
