package commands

import (
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

	errSyntax      = []byte("-ERR syntax error\r\n")
	errInteger     = []byte("-ERR value is not an integer or out of range\r\n")
	errNoCluster   = []byte("-ERR This instance has cluster support disabled\r\n")
	errWrongPass   = []byte("-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	errNoPassword  = []byte("-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?\r\n")
	errCursor      = []byte("-ERR invalid cursor\r\n")
	errUnexpected  = []byte("-ERR the upstream answered in a form that lockproxy does not expect\r\n")
	errHelloNoAuth = []byte("-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time\r\n")
)

// errorLine is an error reply of one line, whatever bytes the arguments bring.
func errorLine(format string, args ...any) []byte {
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

// unknownCommand is what Redis says of a command that it does not have.
func unknownCommand(args [][]byte) []byte {
	said := ""
	for _, arg := range args[1:] {
		if len(said) >= 128 {
			break
		}
		said += fmt.Sprintf("'%.*s' ", 128-len(said), arg)
	}
	return errorLine("ERR unknown command '%.128s', with args beginning with: %s", args[0], said)
}

func unknownSubcommand(args [][]byte) []byte {
	return errorLine("ERR unknown subcommand '%.128s'. Try %s HELP.", args[1], strings.ToUpper(string(args[0])))
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
