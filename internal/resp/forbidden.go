package resp

import (
	"bytes"
	"slices"
)

// Forbidden says that a reply is the error of a server that does not allow its user a command, or does not
// have it: the server is older, or rename-command has taken the command away.
func Forbidden(reply []byte) bool {
	// Servers differ in upper and lower case: "ERR unknown command 'x'", "ERR Unknown subcommand".
	head := bytes.ToLower(reply[:min(len(reply), 32)])
	signs := []string{"-noperm ", "-err unknown command", "-err unknown subcommand"}
	return slices.ContainsFunc(signs, func(sign string) bool { return bytes.HasPrefix(head, []byte(sign)) })
}
