package lock

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

// The bounds of what a client may give a verb. They keep what one lock costs Redis, and all proxies, small.
const (
	maxLockName = 64 << 10 // bytes: it stands in keys, channels and queues, and proxies keep it in memory
	maxToken    = 1024     // bytes
	maxMeta     = 1024     // bytes
	maxChannel  = 1024     // bytes
	maxTries    = 1_000_000
	// so high that MAX means something else than no bound
	maxRenewals = 1_000_000_000
	maxReplicas = 16
	// The scripts count in Lua, whose numbers are exact up to here.
	maxFence = 1 << 53
	// of the ID of a request, which the key of a lock remembers
	maxID      = 64   // bytes
	maxPermits = 1000 // a Redis takes a few ms to look at so many
)

// arguments are the arguments of a lock verb. What LOCK is told of a grant goes to the engine as it stands.
// The zero value is that of a verb without options. A verb finds only those set which its syntax takes.
type arguments struct {
	redlock.Acquire                 // Lease, Wait, Permits, Named ...: zero if it is not given
	tries           int             // 0: not given
	every           time.Duration   // 0: not given
	notice          *notice         // nil: NOTIFY is not given
	syncs           bool            // SYNC is given
	only            int64           // FENCE: of the only grant that is meant; 0: not given
	terms           keepalive.Terms // of KEEPALIVE
	listing         locks.Listing   // of LOCKCTL LIST, and its pattern that of WATCH
	total           bool            // ALL of LOCKCTL STATS
}

// option is one option of the lock verbs. The table of them is all that knows it: the parser reads it by its
// row, and COMMAND DOCS and the syntax line of an error show it so. set stores the value in a, or says why it
// is wrong; l gives the bounds. A value lies in the read buffer, so set copies what it keeps. Errors may be
// shown and logged, so that of a token must not quote it.
type option struct {
	word  string
	shown commands.Argument // Type pure-token: no value follows the word
	group string            // options of one group exclude each other; "": it excludes itself alone
	needs string            // the option without which it means nothing; "": there is none
	set   func(a *arguments, l *locks.Locker, value []byte) error
}

// options has the options of all verbs. The Docs of a verb say which of them it takes. The order means
// nothing, but that those of verbs with tokens come first: see lockOptions.
var options = [...]option{
	// Where the token goes is readRest's to say: it may also come without its word.
	valued("TOKEN", "token", "string", func(_ *arguments, v []byte) error { return checkToken(v) }),
	timed("PX", time.Millisecond, longestLease,
		func(a *arguments) *time.Duration { return &a.Lease }).in("lease"),
	timed("EX", time.Second, longestLease,
		func(a *arguments) *time.Duration { return &a.Lease }).in("lease"),
	timed("WAIT", time.Millisecond, longestWait,
		func(a *arguments) *time.Duration { return &a.Wait }).in("wait"),
	number("TRIES", "count", maxTries, func(a *arguments) *int { return &a.tries }).in("wait"),
	flag("BREAK", func(a *arguments) *bool { return &a.Break }).in("wait"),
	timed("EVERY", time.Millisecond, longestWait,
		func(a *arguments) *time.Duration { return &a.every }),
	valued("NOTIFY", "channel", "string", func(a *arguments, v []byte) error {
		a.notice = &notice{channel: string(v)}
		if len(v) == 0 || len(v) > maxChannel {
			return fmt.Errorf("NOTIFY has a channel of 1 to %d bytes, this one has %d", maxChannel, len(v))
		}
		return nil
	}),
	number("PERMITS", "count", maxPermits, func(a *arguments) *int { return &a.Permits }),
	flag("REENTRANT", func(a *arguments) *bool { return &a.Reentrant }),
	number("FENCE", "fence", maxFence, func(a *arguments) *int64 { return &a.only }),
	flag("KEEPALIVE", func(a *arguments) *bool { return &a.Keep }),
	number("MAX", "renewals", maxRenewals,
		func(a *arguments) *int { return &a.terms.Max }).with("KEEPALIVE"),
	timed("LINGER", time.Millisecond, longestLease,
		func(a *arguments) *time.Duration { return &a.terms.Linger }).with("KEEPALIVE"),
	valued("SYNC", "replicas", "integer", func(a *arguments, v []byte) error {
		n, err := integerArg("SYNC", v, 0, maxReplicas, "")
		a.syncs, a.Sync = true, int(n)
		return err
	}),
	valued("META", "text", "string", func(a *arguments, v []byte) error {
		a.Meta = string(v)
		if len(v) > maxMeta {
			return fmt.Errorf("META has %d bytes at most, this one has %d", maxMeta, len(v))
		}
		return nil
	}),
	timed("ATLEAST", time.Millisecond, longestLease,
		func(a *arguments) *time.Duration { return &a.AtLeast }),
	valued("ID", "id", "string", func(a *arguments, v []byte) error {
		a.Named = string(v)
		if len(v) == 0 || len(v) > maxID || bytes.ContainsFunc(v, notOfID) {
			return fmt.Errorf("ID has 1 to %d letters, digits and -_.:, not %q", maxID, resp.Clip(v))
		}
		return nil
	}),

	// From here on they are those of LOCKCTL.
	valued("MATCH", "pattern", "pattern", func(a *arguments, v []byte) error {
		a.listing.Match = string(v)
		return nil
	}),
	number("COUNT", "count", maxListCount, func(a *arguments) *int { return &a.listing.Count }),
	flag("SCAN", func(a *arguments) *bool { return &a.listing.Scan }),
	flag("ALL", func(a *arguments) *bool { return &a.total }),
}

// lockOptions is how many of the options are those of verbs that take tokens. The words behind them are no
// options where a token may stand: a token "ALL" is a token.
const lockOptions = 18

// bound is the most that a duration may be, and the setting that says so. It is asked for each command, since
// settings may change while the proxy runs.
type bound func(l *locks.Locker) (most time.Duration, setting string)

func longestLease(l *locks.Locker) (time.Duration, string) { return l.MaxLease(), l.MaxLeaseSetting() }
func longestWait(l *locks.Locker) (time.Duration, string)  { return l.MaxWait(), "lock-max-wait" }

// flag is an option without a value. at points to its place in arguments; here and below that keeps the table
// free of code.
func flag(word string, at func(a *arguments) *bool) option {
	return option{
		word:  word,
		shown: commands.Argument{Name: strings.ToLower(word), Type: "pure-token", Token: word},
		set: func(a *arguments, _ *locks.Locker, _ []byte) error {
			*at(a) = true
			return nil
		},
	}
}

// valued is an option with a value of that name and type.
func valued(word, name, kind string, set func(a *arguments, value []byte) error) option {
	return option{
		word:  word,
		shown: commands.Argument{Name: name, Type: kind, Token: word},
		set:   func(a *arguments, _ *locks.Locker, value []byte) error { return set(a, value) },
	}
}

// number is an option whose value is a whole number from 1 to most. What is not such a number is an
// error, and its place in arguments means nothing then.
func number[N int | int64](word, name string, most int64, at func(a *arguments) *N) option {
	return valued(word, name, "integer", func(a *arguments, value []byte) error {
		n, err := integerArg(word, value, 1, most, "")
		*at(a) = N(n)
		return err
	})
}

// timed is an option whose value is a duration, in units. WAIT alone may be 0: as long as is allowed. The
// longest duration is that of l in whole units, so EX has a bound in seconds.
func timed(word string, unit time.Duration, most bound, at func(a *arguments) *time.Duration) option {
	name, least := "milliseconds", int64(1)
	if unit == time.Second {
		name = "seconds"
	}
	if word == "WAIT" {
		least = 0
	}
	o := valued(word, name, "integer", nil)
	o.set = func(a *arguments, l *locks.Locker, value []byte) error {
		longest, setting := most(l)
		n, err := integerArg(word, value, least, int64(longest/unit), setting)
		// only WAIT gets here with 0, or an error, which is the answer anyway
		if *at(a) = time.Duration(n) * unit; n == 0 {
			*at(a) = longest
		}
		return err
	}
	return o
}

// in puts the option into a group.
func (o option) in(group string) option {
	o.group = group
	return o
}

// with says which option it needs.
func (o option) with(other string) option {
	o.needs = other
	return o
}

// takes are the options of these words as COMMAND DOCS shows them, each of which may be left out.
func takes(words ...string) (all []commands.Argument) {
	for _, word := range words {
		all = append(all, mayHave(shown(word)))
	}
	return all
}

// shown is the option of that word, or what stands for several of them. It panics for a word that is none,
// which it would do as soon as the verbs are made.
func shown(word string) commands.Argument {
	switch word {
	case "lease":
		return either("lease", shown("PX"), shown("EX"))
	case "waiting":
		return either("waiting", shown("WAIT"), together("attempts", shown("TRIES"), shown("EVERY")))
	case "keepalive":
		return together("keepalive", shown("KEEPALIVE"), mayHave(shown("MAX")), mayHave(shown("LINGER")))
	case "token":
		return either("token", commands.Argument{Name: "token", Type: "string"}, shown("TOKEN"))
	}
	return options[slices.IndexFunc(options[:], func(o option) bool { return o.word == word })].shown
}

// mayHave, either and together make arguments as COMMAND DOCS has them: one that may be left out, one of
// several, several behind each other.
func mayHave(a commands.Argument) commands.Argument {
	a.Optional = true
	return a
}

func either(name string, all ...commands.Argument) commands.Argument {
	return commands.Argument{Name: name, Type: "oneof", Arguments: all}
}

func together(name string, all ...commands.Argument) commands.Argument {
	return commands.Argument{Name: name, Type: "block", Arguments: all}
}

// shortName returns a check that argument at, the name of a lock, is not too long. Nobody else checks it: a
// node takes keys of any length.
func shortName(at int) func(args [][]byte) (refusal []byte) {
	return func(args [][]byte) []byte {
		if len(args) <= at || len(args[at]) <= maxLockName {
			return nil
		}
		return resp.ErrorLine("ERR the name of a lock has %d bytes at most, this one has %d", maxLockName,
			len(args[at]))
	}
}

// notOfID says that c must not stand in an ID. Blanks and line breaks would part the words in which Redis
// keeps an ID.
func notOfID(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.ContainsRune("-_.:", c))
}

// syntax is what a verb takes, read once from its Docs. It is made when the verb is, and not changed after
// that; all loops read it.
type syntax struct {
	verb   *commands.Command
	name   string // in capitals
	takes  [len(options)]bool
	most   int  // how many options it takes
	bare   bool // the token may be given without the word TOKEN
	counts bool // PERMITS must be given
	open   bool // it takes no token, so its errors may show what it was given
}

// The Docs are the only list of what a verb takes, so what people read and what is parsed cannot differ.
func newSyntax(verb *commands.Command) *syntax {
	s := &syntax{verb: verb, name: strings.ToUpper(strings.ReplaceAll(verb.Name, "|", " "))}
	s.open = strings.HasPrefix(s.name, "LOCKCTL ")
	var see func(all []commands.Argument)
	see = func(all []commands.Argument) {
		for _, arg := range all {
			for i := range options {
				if options[i].word == arg.Token {
					s.takes[i] = true
					s.most++
				}
			}
			s.counts = s.counts || arg.Token == "PERMITS"
			s.bare = s.bare || arg.Name == "token" && arg.Type == "oneof"
			see(arg.Arguments)
		}
	}
	see(verb.Docs.Arguments)
	return s
}

// parseArgs reads the arguments of a verb: the name of the lock, then options in any order. Its errors end
// with the syntax line of the verb. It sets Name, Token and ID of the request too: the id is new for each
// command, and Token is "" if none is given.
func (a *arguments) parseArgs(s *syntax, l *locks.Locker, args [][]byte) error {
	return a.parseBehind(s, l, args, 2)
}

// parseBehind is parseArgs for a verb whose options begin at from, behind its last lock.
func (a *arguments) parseBehind(s *syntax, l *locks.Locker, args [][]byte, from int) error {
	token, err := a.readRest(s, l, args, from)
	if err == nil {
		fresh := l.NewRequest()
		// LOCK and UNLOCK are called most, and this is their only allocation for names.
		a.Name, a.Token, a.ID = threeStrings(args[from-1], token, fresh[:])
		err = a.goTogether(s)
	}
	if err != nil {
		return s.verb.Usage(err)
	}
	return nil
}

// readRest reads the options, which begin at from. The token aliases args. It returns nil if there is no
// token. a may be half filled after an error.
func (a *arguments) readRest(s *syntax, l *locks.Locker, args [][]byte, from int) (token []byte, err error) {
	// in the order in which they are given; an array, so that nothing is allocated
	var given [len(options)]*option
	n := 0
	for rest := args[from:]; len(rest) > 0; {
		o := s.option(rest[0])
		// What follows the only option of a verb is too much, whatever it says.
		if o == nil || s.open && n == 1 && s.most == 1 {
			if err := s.noOption(rest[0], len(args)-len(rest), n, token != nil); err != nil {
				return nil, err
			}
			token, rest = rest[0], rest[1:]
			continue
		}
		for _, before := range given[:n] {
			switch {
			case before == o:
				return nil, fmt.Errorf("%s is given twice", o.word)
			case before.group == o.group && o.group != "":
				return nil, exclude(before.word, o.word)
			}
		}
		given[n], n = o, n+1
		var value []byte
		if rest = rest[1:]; o.shown.Type != "pure-token" {
			if len(rest) == 0 {
				return nil, fmt.Errorf("%s needs a value", o.word)
			}
			value, rest = rest[0], rest[1:]
		}
		if o.word == "TOKEN" {
			if token != nil {
				return nil, errTwoTokens
			}
			token = value
		}
		if err := o.set(a, l, value); err != nil {
			return nil, err
		}
	}
	for _, o := range given[:n] {
		if o.needs != "" &&
			!slices.ContainsFunc(given[:n], func(p *option) bool { return p.word == o.needs }) {
			return nil, fmt.Errorf("%s needs %s", o.word, o.needs)
		}
	}
	return token, nil
}

// goTogether checks what no option alone can tell. Errors are in the order in which they help most: first
// what is missing, then what NOTIFY needs.
func (a *arguments) goTogether(s *syntax) error {
	switch {
	case (a.tries > 0) != (a.every > 0):
		return errors.New("TRIES and EVERY need each other")
	case a.Permits == 0 && s.counts:
		return errors.New("PERMITS is missing: it says how many permits there are")
	case a.notice == nil:
		return nil
	case a.Break:
		return exclude("BREAK", "NOTIFY")
	case a.Wait == 0 && a.tries == 0:
		return errors.New("NOTIFY needs WAIT, or TRIES and EVERY")
	case a.Token == "":
		return errors.New("NOTIFY needs TOKEN, for messages do not tell it")
	case strings.Contains(a.Name, " "):
		return errors.New("NOTIFY is not for names with blanks, which part the words of a message")
	}
	return nil
}

// option returns the option that word names, or nil. Cases do not matter.
func (s *syntax) option(word []byte) *option {
	for i := range options {
		if s.takes[i] && resp.IsWord(word, options[i].word) {
			return &options[i]
		}
	}
	return nil
}

var errTwoTokens = errors.New("two tokens are given")

// noOption takes word, argument i and behind n options none of the verb, for the token. It fails if the verb
// takes none, or if there is one already (second). Where it may be a token in the wrong place, its error
// quotes the word only if that is an option of another verb.
func (s *syntax) noOption(word []byte, i, n int, second bool) error {
	o := optionOf(word)
	switch {
	case s.open && n == 1 && s.most == 1:
		return fmt.Errorf("%q is one argument too many", resp.Clip(word))
	case s.open:
		return fmt.Errorf("%q is no option of %s", resp.Clip(word), s.name)
	case !s.bare && o != nil:
		return fmt.Errorf("%s is no option of %s", o.word, s.name)
	case !s.bare:
		return fmt.Errorf("argument %d is no option of %s", i, s.name)
	case second:
		return errTwoTokens
	}
	return checkToken(word)
}

// exclude is the error for two options of which only one may be given.
func exclude(before, word string) error {
	return fmt.Errorf("%s and %s exclude each other", before, word)
}

// The error says how long it is, and never what it is: a token is a secret.
func checkToken(v []byte) error {
	if len(v) == 0 || len(v) > maxToken {
		return fmt.Errorf("a token has 1 to %d bytes, this one has %d", maxToken, len(v))
	}
	return nil
}

// threeStrings copies a, b and c into strings that share one allocation. None of them is freed before the
// others: who keeps one for long clones it.
func threeStrings(a, b, c []byte) (string, string, string) {
	var all strings.Builder
	all.Grow(len(a) + len(b) + len(c))
	all.Write(a)
	all.Write(b)
	all.Write(c)
	s, second, third := all.String(), len(a), len(a)+len(b)
	return s[:second], s[second:third], s[third:]
}

// integerArg reads a whole number as Redis writes it: without plus sign, leading zeros or spaces. setting
// names the setting that gives the bound, or is "". The error quotes what was given, shortened, so it is not
// for secrets.
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
// is no option. What cannot be told from a token is hidden, too: a word that is wrong may be a token with a
// typing error.
func secretTokens(args [][]byte, secret []bool) {
	for i := 2; i < len(args); i++ {
		option := optionOf(args[i])
		switch {
		case option == nil:
			secret[i] = true
		case option.shown.Type != "pure-token" && i+1 < len(args):
			i++
			secret[i] = option.word == "TOKEN"
		}
	}
}

// optionOf returns the option that word names of any verb that takes tokens, or nil. It does not ask whether
// the verb takes it.
func optionOf(word []byte) *option {
	for i := range options[:lockOptions] {
		if resp.IsWord(word, options[i].word) {
			return &options[i]
		}
	}
	return nil
}
