package lock

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/redlock/locks"
)

const (
	maxLockName = 64 << 10 // bytes: it stands in keys, channels and queues, and proxies keep it in memory
	maxToken    = 1024     // bytes
	maxMeta     = 1024     // bytes
	maxChannel  = 1024     // bytes
	maxTries    = 1_000_000
	maxRenewals = 1_000_000_000
	maxReplicas = 16
	maxFence    = 1 << 53
	maxID       = 64   // bytes
	maxPermits  = 1000 // a Redis takes a few ms to look at so many
)

// arguments are the arguments of a lock verb.
type arguments struct {
	name, token string
	lease       time.Duration // 0: not given
	wait        time.Duration // 0: not given
	tries       int           // 0: not given
	every       time.Duration // 0: not given
	notice      *notice       // nil: NOTIFY is not given
	breaks      bool
	reentrant   bool
	permits     int // 0: not given
	keep        bool
	syncs       bool          // SYNC is given
	fence       int64         // 0: not given
	renewals    int           // at most; 0: as many as it takes
	linger      time.Duration // 0: not given
	replicas    int
	meta        string
	atLeast     time.Duration // 0: not given
	id          string        // "": not given
	request     string        // without an id, what LOCK takes for one
}

// option is one option of the lock verbs.
type option struct {
	word  string
	value bool   // a value follows the word
	group string // options of one group exclude each other
	set   func(a *arguments, l *locks.Locker, value []byte) error
}

// options has the options of all verbs. The Docs of a verb say which of them it takes.
var options = [...]option{
	{"TOKEN", true, "token", func(_ *arguments, _ *locks.Locker, v []byte) error {
		return checkToken(v)
	}},
	{"PX", true, "lease", func(a *arguments, l *locks.Locker, v []byte) (err error) {
		a.lease, err = durationArg("PX", v, time.Millisecond, 1, l.MaxLease(), l.MaxLeaseSetting())
		return err
	}},
	{"EX", true, "lease", func(a *arguments, l *locks.Locker, v []byte) (err error) {
		a.lease, err = durationArg("EX", v, time.Second, 1, l.MaxLease(), l.MaxLeaseSetting())
		return err
	}},
	{"WAIT", true, "wait", func(a *arguments, l *locks.Locker, v []byte) (err error) {
		a.wait, err = durationArg("WAIT", v, time.Millisecond, 0, l.MaxWait(), "lock-max-wait")
		if a.wait == 0 {
			a.wait = l.MaxWait()
		}
		return err
	}},
	{"TRIES", true, "wait", func(a *arguments, _ *locks.Locker, v []byte) error {
		n, err := integerArg("TRIES", v, 1, maxTries, "")
		a.tries = int(n)
		return err
	}},
	{"BREAK", false, "wait", func(a *arguments, _ *locks.Locker, _ []byte) error {
		a.breaks = true
		return nil
	}},
	{"EVERY", true, "every", func(a *arguments, l *locks.Locker, v []byte) (err error) {
		a.every, err = durationArg("EVERY", v, time.Millisecond, 1, l.MaxWait(), "lock-max-wait")
		return err
	}},
	{"NOTIFY", true, "notify", func(a *arguments, _ *locks.Locker, v []byte) error {
		if len(v) == 0 || len(v) > maxChannel {
			return fmt.Errorf("NOTIFY has a channel of 1 to %d bytes, this one has %d", maxChannel, len(v))
		}
		a.notice = &notice{channel: string(v)}
		return nil
	}},
	{"PERMITS", true, "permits", func(a *arguments, _ *locks.Locker, v []byte) error {
		n, err := integerArg("PERMITS", v, 1, maxPermits, "")
		a.permits = int(n)
		return err
	}},
	{"REENTRANT", false, "reentrant", func(a *arguments, _ *locks.Locker, _ []byte) error {
		a.reentrant = true
		return nil
	}},
	{"FENCE", true, "fence", func(a *arguments, _ *locks.Locker, v []byte) (err error) {
		a.fence, err = integerArg("FENCE", v, 1, maxFence, "")
		return err
	}},
	{"KEEPALIVE", false, "keepalive", func(a *arguments, _ *locks.Locker, _ []byte) error {
		a.keep = true
		return nil
	}},
	{"MAX", true, "max", func(a *arguments, _ *locks.Locker, v []byte) error {
		n, err := integerArg("MAX", v, 1, maxRenewals, "")
		a.renewals = int(n)
		return err
	}},
	{"LINGER", true, "linger", func(a *arguments, l *locks.Locker, v []byte) (err error) {
		a.linger, err = durationArg("LINGER", v, time.Millisecond, 1, l.MaxLease(), l.MaxLeaseSetting())
		return err
	}},
	{"SYNC", true, "sync", func(a *arguments, _ *locks.Locker, v []byte) error {
		n, err := integerArg("SYNC", v, 0, maxReplicas, "")
		a.syncs, a.replicas = true, int(n)
		return err
	}},
	{"META", true, "meta", func(a *arguments, _ *locks.Locker, v []byte) error {
		if len(v) > maxMeta {
			return fmt.Errorf("META has %d bytes at most, this one has %d", maxMeta, len(v))
		}
		a.meta = string(v)
		return nil
	}},
	{"ATLEAST", true, "atleast", func(a *arguments, l *locks.Locker, v []byte) (err error) {
		a.atLeast, err = durationArg("ATLEAST", v, time.Millisecond, 1, l.MaxLease(), l.MaxLeaseSetting())
		return err
	}},
	{"ID", true, "id", func(a *arguments, _ *locks.Locker, v []byte) error {
		if len(v) == 0 || len(v) > maxID || bytes.ContainsFunc(v, notOfID) {
			return fmt.Errorf("ID has 1 to %d letters, digits and -_.:, not %q", maxID, resp.Clip(v))
		}
		a.id = string(v)
		return nil
	}},
}

// shortName returns a check that argument at, the name of a lock, is not too long.
func shortName(at int) func(args [][]byte) (refusal []byte) {
	return func(args [][]byte) []byte {
		if len(args) <= at || len(args[at]) <= maxLockName {
			return nil
		}
		return resp.ErrorLine("ERR the name of a lock has %d bytes at most, this one has %d", maxLockName,
			len(args[at]))
	}
}

// notOfID says that c must not stand in an ID.
func notOfID(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.ContainsRune("-_.:", c))
}

// syntax is what a verb takes, read once from its Docs.
type syntax struct {
	verb   *commands.Command
	takes  [len(options)]bool
	bare   bool // the token may be given without the word TOKEN
	counts bool // PERMITS must be given
}

func newSyntax(verb *commands.Command) *syntax {
	s := &syntax{verb: verb}
	var see func(all []commands.Argument)
	see = func(all []commands.Argument) {
		for _, arg := range all {
			for i := range options {
				s.takes[i] = s.takes[i] || options[i].word == arg.Token
			}
			s.counts = s.counts || arg.Token == "PERMITS"
			s.bare = s.bare || arg.Name == "token" && arg.Token == "" && arg.Type == "string"
			see(arg.Arguments)
		}
	}
	see(verb.Docs.Arguments)
	return s
}

// parse reads the arguments of a verb: the name of the lock, then options in any order. Its errors end with
// the syntax line of the verb.
func (a *arguments) parse(s *syntax, l *locks.Locker, args [][]byte) error {
	return a.parseBehind(s, l, args, 2)
}

// parseBehind is parse for a verb whose options begin at from, behind its last lock.
func (a *arguments) parseBehind(s *syntax, l *locks.Locker, args [][]byte, from int) error {
	var token []byte
	var given [len(options)]*option
	n := 0
	for rest := args[from:]; len(rest) > 0; {
		i := s.option(rest[0])
		if i < 0 {
			if err := s.bareToken(token != nil, rest[0], len(args)-len(rest)); err != nil {
				return err
			}
			token, rest = rest[0], rest[1:]
			continue
		}
		o := &options[i]
		for _, before := range given[:n] {
			if before.group == o.group {
				return s.twice(before.word, o.word)
			}
		}
		given[n], n = o, n+1
		var value []byte
		if rest = rest[1:]; o.value {
			if len(rest) == 0 {
				return s.verb.Usage(fmt.Errorf("%s needs a value", o.word))
			}
			value, rest = rest[0], rest[1:]
		}
		if o.word == "TOKEN" {
			if token != nil {
				return s.verb.Usage(errors.New("two tokens are given"))
			}
			token = value
		}
		if err := o.set(a, l, value); err != nil {
			return s.verb.Usage(err)
		}
	}
	fresh := l.NewRequest()
	a.name, a.token, a.request = threeStrings(args[from-1], token, fresh[:])
	switch {
	case (a.tries > 0) != (a.every > 0):
		return s.verb.Usage(errors.New("TRIES and EVERY need each other"))
	case a.renewals > 0 && !a.keep:
		return s.verb.Usage(errors.New("MAX needs KEEPALIVE"))
	case a.permits == 0 && s.counts:
		return s.verb.Usage(errors.New("PERMITS is missing: it says how many permits there are"))
	case a.linger > 0 && !a.keep:
		return s.verb.Usage(errors.New("LINGER needs KEEPALIVE"))
	case a.notice != nil:
		return s.notifies(a)
	}
	return nil
}

// option returns the index of the option that word names, or -1.
func (s *syntax) option(word []byte) int {
	for i := range options {
		if s.takes[i] && resp.IsWord(word, options[i].word) {
			return i
		}
	}
	return -1
}

// bareToken takes word, the i-th argument and no option of the verb, for the token. It fails if the verb
// takes none, or if there is one already (second). Its error quotes the word only if it is an option of
// another verb: otherwise it may be a token in the wrong place.
func (s *syntax) bareToken(second bool, word []byte, i int) error {
	switch {
	case !s.bare:
		name := strings.ToUpper(s.verb.Name)
		if o := optionOf(word); o != nil {
			return s.verb.Usage(fmt.Errorf("%s is no option of %s", o.word, name))
		}
		return s.verb.Usage(fmt.Errorf("argument %d is no option of %s", i, name))
	case second:
		return s.verb.Usage(errors.New("two tokens are given"))
	}
	if err := checkToken(word); err != nil {
		return s.verb.Usage(err)
	}
	return nil
}

func (s *syntax) twice(before, word string) error {
	if before == word {
		return s.verb.Usage(fmt.Errorf("%s is given twice", word))
	}
	return s.verb.Usage(fmt.Errorf("%s and %s exclude each other", before, word))
}

func checkToken(v []byte) error {
	if len(v) == 0 || len(v) > maxToken {
		return fmt.Errorf("a token has 1 to %d bytes, this one has %d", maxToken, len(v))
	}
	return nil
}

// threeStrings copies a, b and c into strings that share one allocation.
func threeStrings(a, b, c []byte) (string, string, string) {
	var all strings.Builder
	all.Grow(len(a) + len(b) + len(c))
	all.Write(a)
	all.Write(b)
	all.Write(c)
	s, second, third := all.String(), len(a), len(a)+len(b)
	return s[:second], s[second:third], s[third:]
}

// durationArg reads a number of units from least to most. most is a setting.
func durationArg(word string, v []byte, unit time.Duration, least int64, most time.Duration,
	setting string) (time.Duration, error) {
	n, err := integerArg(word, v, least, int64(most/unit), setting)
	return time.Duration(n) * unit, err
}

// integerArg reads a whole number as Redis writes it: without plus sign, leading zeros or spaces. setting
// names the setting that gives the bound, or is "".
func integerArg(word string, v []byte, least, most int64, setting string) (int64, error) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err == nil && n >= least && n <= most && v[0] != '+' && (v[0] != '0' || len(v) == 1) {
		return n, nil
	}
	if setting != "" {
		setting = ", which is " + setting
	}
	return 0, fmt.Errorf("%s must be a whole number from %d to %d%s, not %q", word, least, most, setting,
		resp.Clip(v))
}

// secretTokens marks the tokens among the arguments of a lock verb: what follows TOKEN, and every word that
// is no option.
func secretTokens(args [][]byte) []bool {
	secret := make([]bool, len(args))
	for i := 2; i < len(args); i++ {
		option := optionOf(args[i])
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

// optionOf returns the option of any verb that word names, or nil.
func optionOf(word []byte) *option {
	for i := range options {
		if resp.IsWord(word, options[i].word) {
			return &options[i]
		}
	}
	return nil
}
