package commands

import (
	"slices"

	"lockproxy/internal/resp"
)

// Redacted stands where a secret was, as in Redis.
var Redacted = []byte("(redacted)")

// Secrets says which of args, a command, are passwords or tokens of locks: nobody but the client and the node
// may see these. nil: none is.
func (c *Command) Secrets(args [][]byte) []bool {
	if c.Secret == nil {
		return nil
	}
	secret := make([]bool, len(args))
	c.Secret(args, secret)
	if inner, at := c.Inner(args); inner != nil {
		copy(secret[at:], inner.Secrets(args[at:]))
	}
	return secret
}

// HasSecret says that one of args is a password or a token.
func (c *Command) HasSecret(args [][]byte) bool { return slices.Contains(c.Secrets(args), true) }

// SecretsFrom is for commands all of whose arguments from the i-th on are secrets.
func SecretsFrom(i int) func(args [][]byte, secret []bool) {
	return func(_ [][]byte, secret []bool) {
		for j := i; j < len(secret); j++ {
			secret[j] = true
		}
	}
}

// SecretWord is a word that n secret arguments follow; n is 0 if the argument behind it is not secret.
type SecretWord struct {
	Word string
	N    int
}

// SecretBehind returns a Row.Secret, which marks what follows words from argument first on. What stands
// behind a word is not looked at as a word itself, so a value AUTH hides nothing.
func SecretBehind(first int, words ...SecretWord) func(args [][]byte, secret []bool) {
	return func(args [][]byte, secret []bool) {
		for i := first; i < len(args); i++ {
			for _, w := range words {
				if !resp.IsWord(args[i], w.Word) {
					continue
				}
				for n := range w.N {
					if i+1+n < len(args) {
						secret[i+1+n] = true
					}
				}
				i += max(w.N, 1)
				break
			}
		}
	}
}
