package commands

import (
	"slices"

	"lockproxy/internal/resp"
)

// redacted stands where a secret was, as in Redis.
var redacted = []byte("(redacted)")

// Secrets says which of args, a command, are passwords or tokens of locks: nobody but the client and the node
// may see these. nil: none is.
func (c *Command) Secrets(args [][]byte) []bool {
	if c.secret == nil {
		return nil
	}
	return c.secret(args)
}

// HasSecret says that one of args is a password or a token.
func (c *Command) HasSecret(args [][]byte) bool { return slices.Contains(c.Secrets(args), true) }

// secretsFrom is for commands all of whose arguments from the i-th on are secrets.
func secretsFrom(i int) func(args [][]byte) []bool {
	return func(args [][]byte) []bool {
		secret := make([]bool, len(args))
		for j := i; j < len(args); j++ {
			secret[j] = true
		}
		return secret
	}
}

// secretWord is a word that n secret arguments follow; n is 0 where one that is none does.
type secretWord struct {
	word string
	n    int
}

// secretBehind looks for words from argument i on.
func secretBehind(args [][]byte, i int, words ...secretWord) []bool {
	secret := make([]bool, len(args))
	for ; i < len(args); i++ {
		for _, w := range words {
			if !resp.IsWord(args[i], w.word) {
				continue
			}
			for n := range w.n {
				if i+1+n < len(args) {
					secret[i+1+n] = true
				}
			}
			i += max(w.n, 1)
			break
		}
	}
	return secret
}
