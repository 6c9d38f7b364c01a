package commands

// secrets says which arguments hold passwords or tokens; nil: none does.
func (c *Command) secrets(args [][]byte) []bool {
	switch c.Name {
	case "auth":
		return secretFrom(args, 1)
	case "hello":
		return secretBehind(args, 2, secretWord{"AUTH", 2}, secretWord{"SETNAME", 0})
	case "migrate":
		return secretBehind(args, 6, secretWord{"AUTH", 1}, secretWord{"AUTH2", 2})
	case "lockctl|check":
		return secretFrom(args, 3)
	case "lock", "wlock", "rlock", "unlock", "renew":
		if c.Flags&LockVerb != 0 {
			return secretTokens(args)
		}
	}
	return nil
}

// secretFrom keeps all arguments from i on to itself.
func secretFrom(args [][]byte, i int) []bool {
	secret := make([]bool, len(args))
	for ; i < len(args); i++ {
		secret[i] = true
	}
	return secret
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
			if !isWord(args[i], w.word) {
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

// secretTokens looks for the tokens in the arguments of a lock verb: what TOKEN names, and what is
// no option.
func secretTokens(args [][]byte) []bool {
	secret := make([]bool, len(args))
	for i := 2; i < len(args); i++ {
		option := lockOptionOf(args[i])
		switch {
		case option == nil:
			secret[i] = true
		case option.value && i+1 < len(args):
			i++
			secret[i] = option.word == "TOKEN"
		}
	}
	return secret
}

// lockOptionOf is the option that word names, of whichever verb, or nil.
func lockOptionOf(word []byte) *lockOption {
	for i := range lockOptions {
		if isWord(word, lockOptions[i].word) {
			return &lockOptions[i]
		}
	}
	return nil
}
