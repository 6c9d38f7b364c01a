// Package kind has the kinds of values that people write, as flags of subcommands and as settings of the
// proxy: text, files, yes or no, words, numbers, times. An Input is the place of one of them: it reads what
// somebody wrote into that place, and shows it again.
package kind

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Input is one place. It is a pflag.Value, whose Type is what help calls what stands there.
//
// The text of an error of Set goes on after a name ("must be ..."); where Redis has a kind of the same sort
// it is Redis's own text. String shows what is there as Set would take it, so that what was shown can be set
// again.
type Input struct {
	Allowed string        // what Set takes, for people
	Words   []string      // all that Set takes; nil: others, too
	Subject string        // what Redis's error begins with
	Brief   func() string // String in a shorter form, for help
	kind    string
	set     func(string) error
	show    func() string
}

// Of is the place at, of a kind of values: read makes one of what somebody wrote, and show writes one as read
// would take it. allowed is what read takes, in words.
func Of[T any](
	at *T, kind, allowed string, read func(string) (T, error), show func(T) string,
) *Input {
	text := func() string { return show(*at) }
	return &Input{Allowed: allowed, Subject: "argument", Brief: text, kind: kind, show: text,
		set: func(s string) error {
			v, err := read(s)
			if err == nil {
				*at = v
			}
			return err
		}}
}

// Set leaves what is there alone if it refuses.
func (i *Input) Set(s string) error { return i.set(s) }

func (i *Input) String() string { return i.show() }

// Type implements pflag.Value.
func (i *Input) Type() string { return i.kind }

// Text is any string; help calls it kind.
func Text(at *string, kind, allowed string) *Input {
	return Of(at, kind, allowed, func(s string) (string, error) { return s, nil }, strings.Clone)
}

// FILE is the Type of what is the path of a file.
const FILE = "FILE"

// File is the path of a file.
func File(at *string, allowed string) *Input { return Text(at, FILE, allowed) }

// yesNo is the Type of a boolean in the words of redis.conf.
const yesNo = "yes|no"

// YesNo is yes or no.
func YesNo(at *bool) *Input {
	words := map[bool]string{true: "yes", false: "no"}
	in := Of(at, yesNo, "yes or no", func(s string) (bool, error) {
		s = strings.ToLower(s)
		if s != words[true] && s != words[false] {
			return false, errors.New("must be 'yes' or 'no'")
		}
		return s == words[true], nil
	}, func(yes bool) string { return words[yes] })
	in.Words = []string{"yes", "no"}
	return in
}

// Boolean says that it is yes or no.
func (i *Input) Boolean() bool { return i.kind == yesNo }

// Choice is one of some words, which are separated by blanks; values are what they stand for. words and
// values are as many as each other, and in the same order. What at has at first is the default.
func Choice[T comparable](at *T, words string, values ...T) *Input {
	return choiceOf(at, strings.Fields(words), values)
}

// OneOf is one of some words.
func OneOf(at *string, words ...string) *Input { return choiceOf(at, words, words) }

func choiceOf[T comparable](at *T, words []string, values []T) *Input {
	allowed := strings.Join(words, ", ")
	in := Of(at, "WORD", allowed, func(s string) (v T, err error) {
		i := slices.IndexFunc(words, func(word string) bool { return strings.EqualFold(word, s) })
		if i < 0 {
			return v, fmt.Errorf("must be one of the following: %s", allowed)
		}
		return values[i], nil
	}, func(v T) string {
		if i := slices.Index(values, v); i >= 0 {
			return words[i]
		}
		// not one of the values: only a program that forgot one comes here
		return ""
	})
	in.Words, in.Subject = words, "argument(s)"
	return in
}

// Number counts things.
func Number(at *int, least, most int) *Input {
	return Of(at, "N", fmt.Sprintf("%d to %d", least, most), func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil {
			// Redis's own words
			return 0, errors.New("couldn't be parsed into an integer")
		}
		if n < least || n > most {
			return 0, fmt.Errorf("must be between %d and %d inclusive", least, most)
		}
		return n, nil
	}, strconv.Itoa)
}

// Time is a time with its unit. A plain number is refused, because some would mean seconds and others
// milliseconds.
func Time(at *time.Duration, least, most time.Duration) *Input {
	allowed := fmt.Sprintf("%s to %s", Short(least), Short(most))
	return Of(at, "TIME", allowed, func(s string) (time.Duration, error) {
		t, err := time.ParseDuration(s)
		// A number without a unit is what people forget most often, so they are shown what they could have
		// meant.
		switch _, plain := strconv.ParseFloat(s, 64); {
		case err != nil && plain == nil:
			err = fmt.Errorf("needs a unit: %ss or %sms", s, s)
		case err != nil:
			err = errors.New("must be a duration, such as 30s, 500ms or 10m")
		case t < least || t > most:
			err = fmt.Errorf("must be between %s and %s inclusive", Short(least), Short(most))
		}
		return t, err
	}, Short)
}

// zeros are the parts that Short leaves out.
var zeros = strings.NewReplacer("h0m0s", "h", "m0s", "m")

// Short is Duration.String without the parts that are zero: 10m.
func Short(d time.Duration) string { return zeros.Replace(d.String()) }
