package commands

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tidwall/redcon"
)

// Whole replies that never change.
var (
	replyOK    = []byte("+OK\r\n")
	replyPong  = []byte("+PONG\r\n")
	replyReset = []byte("+RESET\r\n")
	replyEmpty = []byte("*0\r\n")
	replyZero  = []byte(":0\r\n")
	replyOne   = []byte(":1\r\n")

	replyNull2 = []byte("$-1\r\n")
	replyNull3 = []byte("_\r\n")

	errSyntax      = []byte("-ERR syntax error\r\n")
	errInteger     = []byte("-ERR value is not an integer or out of range\r\n")
	errNoCluster   = []byte("-ERR This instance has cluster support disabled\r\n")
	errWrongPass   = []byte("-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	errNoPassword  = []byte("-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?\r\n")
	errCursor      = []byte("-ERR invalid cursor\r\n")
	errUnexpected  = []byte("-ERR the upstream answered in a form that lockproxy does not expect\r\n")
	errHelloNoAuth = []byte("-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time\r\n")
)

// replyNull is Null.
func replyNull(proto int) []byte {
	if proto < 3 {
		return replyNull2
	}
	return replyNull3
}

// maxQuoted is how many bytes of one argument an error repeats.
const maxQuoted = 16 << 10

// errorLine is an error reply of one line, whatever bytes the arguments bring, and however many.
func errorLine(format string, args ...any) []byte {
	for i, arg := range args {
		switch arg := arg.(type) {
		case []byte:
			if len(arg) > maxQuoted {
				args[i] = shortened(arg, maxQuoted)
			}
		case string:
			if len(arg) > maxQuoted {
				args[i] = shortened(arg, maxQuoted)
			}
		}
	}
	text := strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' {
			return ' '
		}
		return r
	}, fmt.Sprintf(format, args...))
	return []byte("-" + text + "\r\n")
}

func wrongArity(name string) []byte {
	return errorLine("ERR wrong number of arguments for '%s' command", name)
}

// tooLong is the reply to c with more arguments than the proxy takes.
func (c *Command) tooLong() []byte {
	return errorLine("ERR too many arguments for '%s' command: lockproxy, which answers it, takes %d", c.Name, c.most-1)
}

// unknownCommand is what Redis says of a command that it does not have.
func unknownCommand(args [][]byte) []byte {
	var said []byte
	for _, arg := range args[1:] {
		if len(said) >= maxSaid {
			break
		}
		arg = printed(arg, maxSaid-len(said))
		said = append(append(append(said, '\''), arg...), "' "...)
	}
	line := append([]byte("-ERR unknown command '"), printed(args[0], maxSaid)...)
	return endLine(append(append(line, "', with args beginning with: "...), said...))
}

func unknownSubcommand(args [][]byte) []byte {
	line := append([]byte("-ERR unknown subcommand '"), printed(args[1], maxSaid)...)
	line = append(append(line, "'. Try "...), bytes.ToUpper(args[0])...)
	return endLine(append(line, " HELP."...))
}

// maxSaid is how many bytes Redis repeats of what it does not know.
const maxSaid = 128

// printed is what C prints of arg by "%.*s": up to n bytes, and none from a NUL on.
func printed(arg []byte, n int) []byte {
	arg = arg[:min(n, len(arg))]
	if i := bytes.IndexByte(arg, 0); i >= 0 {
		arg = arg[:i]
	}
	return arg
}

// endLine makes a reply of one line of what clients may have had a part in.
func endLine(line []byte) []byte {
	for i, b := range line {
		if b == '\r' || b == '\n' {
			line[i] = ' '
		}
	}
	return append(line, "\r\n"...)
}

// unknownOrArity answers a subcommand that judges the number of its arguments itself.
func unknownOrArity(args [][]byte) []byte {
	return errorLine("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try %s HELP.", args[1], strings.ToUpper(string(args[0])))
}

// refusal names a command and says why it is not to be had. reason starts behind
// "is not available through lockproxy".
func refusal(name, reason string) []byte {
	container, sub, _ := strings.Cut(name, "|")
	name = strings.TrimSpace(strings.ToUpper(container) + " " + strings.ToUpper(sub))
	return errorLine("ERR %s is not available through lockproxy%s", name, reason)
}

// helpReply is the reply to the HELP of a container, in Redis's form.
func helpReply(container string, lines ...string) []byte {
	out := redcon.AppendArray(nil, len(lines)+3)
	out = redcon.AppendString(out, container+" <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, line := range lines {
		out = redcon.AppendString(out, line)
	}
	out = redcon.AppendString(out, "HELP")
	return redcon.AppendString(out, "    Prints this help.")
}
