package commands

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"time"

	"lockproxy/internal/resp"
)

// Timeout is the time-out of a command that blocks. The zero value: it is not known which argument has it,
// if any.
type Timeout struct {
	At    int           // its position among the arguments
	Unit  time.Duration // time.Second, with fractions, or time.Millisecond
	Limit time.Duration // 0: for ever
	// Fresh: the command asks for what comes after it is sent, so if it is sent again later, it asks for
	// something else.
	Fresh bool
}

// Known says that the time-out can be changed.
func (t Timeout) Known() bool { return t.At > 0 }

// Rewrite returns req, one whole command, with the time-out replaced by left: at least a millisecond, or for
// Redis 6.0 two, since it reads 0.001 seconds as 0, which is for ever. It is for a command that is sent
// again, to another node, when part of its time is over. A request that cannot be read is returned as it is.
func (t Timeout) Rewrite(req []byte, left time.Duration) []byte {
	args, _, err := resp.Split(req, nil)
	if err != nil || !t.Known() || t.At >= len(args) {
		return req
	}
	ms := max((left + time.Millisecond - 1).Milliseconds(), 1)
	if t.Unit == time.Second {
		args[t.At] = strconv.AppendFloat(nil, float64(max(ms, 2))/1000, 'f', 3, 64)
	} else {
		args[t.At] = strconv.AppendInt(nil, ms, 10)
	}
	return resp.AppendCommand(nil, args...)
}

// Blocks says whether the command with args, whose Route is Blocks, may block its connection, and
// for how long. A row without a Timeout blocks always, for a time that nobody knows.
func (c *Command) Blocks(args [][]byte) (t Timeout, blocks bool) {
	if c.Timeout == nil {
		return Timeout{}, true
	}
	return c.Timeout(args)
}

// TimeoutAt is the time-out in argument i, from the end if i is negative. It is the Row.Timeout of commands
// that always block.
func TimeoutAt(i int, unit time.Duration) func(args [][]byte) (Timeout, bool) {
	return func(args [][]byte) (Timeout, bool) {
		at := i
		if i < 0 {
			at += len(args)
		}
		return readTimeout(args, at, unit), true
	}
}

// longestNumber is how many bytes of a number Redis reads (MAX_LONG_DOUBLE_CHARS).
const longestNumber = 5<<10 - 1

// readTimeout reads the argument at that position as Redis does. If it makes no sense, the result is the
// zero value, and the node gives the error.
func readTimeout(args [][]byte, at int, unit time.Duration) Timeout {
	if at <= 0 || at >= len(args) || len(args[at]) > longestNumber {
		return Timeout{}
	}
	ms, err := strconv.ParseFloat(string(args[at]), 64)
	// As newer versions do it: a short time must not become 0, which is for ever.
	if unit == time.Second {
		ms = math.Ceil(ms * 1000)
	}
	// The comparison is false for NaN.
	if err != nil || !(ms >= 0 && ms < float64(math.MaxInt64/int64(time.Millisecond))) {
		return Timeout{}
	}
	return Timeout{At: at, Unit: unit, Limit: time.Duration(ms) * time.Millisecond}
}

// StreamTimeout is the time-out of XREAD and XREADGROUP, which block only with BLOCK. Any argument that
// might be BLOCK is taken for it: a wrong guess costs a connection, while a shared connection must never
// block.
func StreamTimeout(args [][]byte) (t Timeout, blocks bool) {
	if !slices.ContainsFunc(args[1:], func(arg []byte) bool { return resp.IsWord(arg, "BLOCK") }) {
		return t, false
	}
	for i := 1; i < len(args); i++ {
		switch arg := args[i]; {
		case resp.IsWord(arg, "BLOCK"):
			i++
			t = readTimeout(args, i, time.Millisecond)
		case resp.IsWord(arg, "COUNT"):
			i++
		case resp.IsWord(arg, "GROUP"):
			i += 2
		case resp.IsWord(arg, "STREAMS"):
			ids := args[i+1+(len(args)-i-1)/2:]
			for _, id := range ids {
				t.Fresh = t.Fresh || bytes.Equal(id, []byte("$")) || bytes.Equal(id, []byte("+"))
			}
			return t, true
		}
	}
	return t, true
}
