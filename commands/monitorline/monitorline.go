// Package monitorline writes what MONITOR shows of a command:
//
//	+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"
//
// AppendTime and AppendCall write its halves; Shows says of which commands.
package monitorline

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// AppendTime appends the time, in the form of the first half. It is a unix time with six digits of
// microseconds. A line is a simple string, so it begins with a plus sign.
func AppendTime(dst []byte, now time.Time) []byte {
	dst = strconv.AppendInt(append(dst, '+'), now.Unix(), 10)
	micros := strconv.Itoa(1_000_000 + now.Nanosecond()/1000)
	dst = append(dst, '.')
	dst = append(dst, micros[1:]...)
	return append(dst, ' ')
}

// MONITOR shows at most so many arguments of a command, and so many bytes of one of them. Otherwise one long
// command would be copied whole to each client in MONITOR.
const (
	monitorArgs = 128
	monitorArg  = 4 << 10
)

// AppendCall appends the second half, with what is secret hidden. It replaces what it leaves out of a long
// command by a count, as servers do in SLOWLOG. It runs on the loop of cl, whose command it is. A client over
// a unix socket is shown by the path, as Redis shows it. It ends the line.
func AppendCall(dst []byte, cl *commands.Client, c *commands.Command, args [][]byte) []byte {
	dst = strconv.AppendInt(append(dst, '['), int64(cl.DB), 10)
	dst = append(dst, ' ')
	if cl.Unix {
		dst = append(dst, "unix:"...)
		dst = append(dst, cl.LocalAddr[:max(len(cl.LocalAddr)-len(":0"), 0)]...)
	} else {
		dst = append(dst, cl.Addr...)
	}
	dst = append(dst, ']')
	shown := args
	if len(args) > monitorArgs {
		// the last place is for the count
		shown = args[:monitorArgs-1]
	}
	secret := c.Secrets(shown)
	for i, arg := range shown {
		dst = append(dst, ' ')
		if secret != nil && secret[i] {
			arg = commands.Redacted
		}
		dst = appendQuoted(dst, resp.Shortened(arg, monitorArg))
	}
	if more := len(args) - len(shown); more > 0 {
		dst = appendQuoted(append(dst, ' '), fmt.Appendf(nil, "... (%d more arguments)", more))
	}
	return append(dst, '\r', '\n')
}

// appendQuoted appends arg as Redis shows it to people. It is sdscatrepr of Redis. What is no printable ASCII
// is escaped, so a line stays one line.
func appendQuoted(dst, arg []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, b := range arg {
		if b >= ' ' && b <= '~' && b != '"' && b != '\\' {
			dst = append(dst, b)
		} else if letter := strings.IndexByte("\\\"\n\r\t\a\b", b); letter >= 0 {
			dst = append(dst, '\\', `\"nrtab`[letter])
		} else {
			dst = append(dst, '\\', 'x', hex[b>>4], hex[b&15])
		}
	}
	return append(dst, '"')
}

// Shows says that MONITOR shows the command like any other. Commands that run scripts, and EXEC of
// Redis 6, have the flag that hides them, but Redis shows them all the same: in another way, ahead of
// the commands that the script calls, and behind those that EXEC has run.
func Shows(c *commands.Command) bool {
	return c.Flags&commands.Admin == 0 && (c.Flags&commands.SkipMonitor == 0 ||
		c.Flags&(commands.Scripted|commands.RunsQueue) != 0)
}
