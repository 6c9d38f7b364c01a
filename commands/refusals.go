package commands

import (
	"bytes"
	"fmt"
	"strings"

	"lockproxy/internal/resp"
)

// rejects is an error reply to c before it runs. An EXEC that is rejected ends the transaction all the same.
func rejects(c *Command, format string, args ...any) []byte {
	word := "ERR "
	if c.Flags&RunsQueue != 0 {
		word = "EXECABORT Transaction discarded because of: "
	}
	return resp.ErrorLine(word+format, args...)
}

// tooLong is the reply to c with more arguments than the proxy takes.
func tooLong(c *Command) []byte {
	return resp.ErrorLine("ERR too many arguments for '%s' command: lockproxy, which answers it, takes %d",
		c.Name, c.MaxArgs-1)
}

// UnknownCommand is what Redis says of a command that it does not have.
func UnknownCommand(args [][]byte) []byte {
	var said []byte
	for _, arg := range args[1:] {
		if len(said) >= maxSaid {
			break
		}
		said = fmt.Appendf(said, "'%s' ", printed(arg, maxSaid-len(said)))
	}
	return resp.ErrorLine("ERR unknown command '%s', with args beginning with: %s", printed(args[0], maxSaid),
		said)
}

// unknownSubcommand is what Redis says of a subcommand that its container does not have.
func unknownSubcommand(args [][]byte) []byte {
	return resp.ErrorLine("ERR unknown subcommand '%s'. Try %s HELP.", printed(args[1], maxSaid),
		bytes.ToUpper(args[0]))
}

// maxSaid is how many bytes of an unknown name Redis repeats in its error.
const maxSaid = 128

// printed is arg as C prints it by "%.*s": at most n bytes, and nothing from a NUL on.
func printed(arg []byte, n int) []byte {
	arg, _, _ = bytes.Cut(arg[:min(n, len(arg))], []byte{0})
	return arg
}

// UnknownOrArity answers a subcommand that checks the number of its arguments itself.
func UnknownOrArity(args [][]byte) []byte {
	return resp.ErrorLine("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try %s HELP.",
		args[1], strings.ToUpper(string(args[0])))
}

// Refusal is the reply that a command is not available, and why. reason goes on behind "is not available
// through lockproxy".
func Refusal(name, reason string) []byte {
	name = strings.ToUpper(strings.ReplaceAll(name, "|", " "))
	return resp.ErrorLine("ERR %s is not available through lockproxy%s", name, reason)
}

// NoSubcommand answers a container command whose subcommand the proxy does not know.
func NoSubcommand(c *Call) { c.Reply(unknownSubcommand(c.Args)) }

// SinceValkey makes the function of a subcommand that Valkey has since a version. Servers without it answer
// as to any word that they do not know.
func SinceValkey(major, minor int, run func(c *Call)) func(c *Call) {
	return func(c *Call) {
		if !c.Server.Upstream().IsValkey(major, minor) {
			NoSubcommand(c)
			return
		}
		run(c)
	}
}

// ErrNoCluster is what Redis says of cluster commands where there is no cluster.
var ErrNoCluster = []byte("-ERR This instance has cluster support disabled\r\n")
