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

	"github.com/spf13/pflag"
)

// Input is one place. As a flag its Type is what help calls what stands there.
//
// The text of an error of Set goes on after a name ("must be ..."); where Redis has a kind of the same sort
// it is Redis's own text. String shows what is there as Set would take it, so that what was shown can be set
// again.
type Input interface {
	pflag.Value
	Allowed() string // what Set takes, for people
}

// text is any string that check takes. at is where the value goes; Set leaves it alone if it refuses.
type text struct {
	at            *string
	kind, allowed string
	check         func(string) error
}

func anything(string) error { return nil }

// Text is any string; help calls it kind.
func Text(at *string, kind, allowed string) Input { return text{at, kind, allowed, anything} }

// Checked is a Text that check takes.
func Checked(at *string, kind, allowed string, check func(string) error) Input {
	return text{at, kind, allowed, check}
}

// FILE is the Type of what is the path of a file.
const FILE = "FILE"

// File is the path of a file.
func File(at *string, allowed string) Input { return Text(at, FILE, allowed) }

func (t text) Set(s string) error {
	err := t.check(s)
	if err == nil {
		*t.at = s
	}
	return err
}

func (t text) String() string  { return *t.at }
func (t text) Type() string    { return t.kind }
func (t text) Allowed() string { return t.allowed }

// yesNo is a boolean, in the words of redis.conf.
type yesNo struct{ at *bool }

// YesNo is yes or no.
func YesNo(at *bool) Input { return yesNo{at} }

func (b yesNo) Set(s string) error {
	switch strings.ToLower(s) {
	case "yes":
		*b.at = true
	case "no":
		*b.at = false
	default:
		return errors.New("must be 'yes' or 'no'")
	}
	return nil
}

func (b yesNo) String() string {
	if *b.at {
		return "yes"
	}
	return "no"
}

func (b yesNo) Type() string    { return "yes|no" }
func (b yesNo) Words() []string { return []string{"yes", "no"} }
func (b yesNo) Allowed() string { return "yes or no" }

// Boolean says that v is yes or no.
func Boolean(v Input) bool {
	_, ok := v.(yesNo)
	return ok
}

// choice is one of a few words, each of which stands for a value.
type choice[T comparable] struct {
	at     *T
	words  []string
	values []T
}

// Choice is one of some words, which are separated by blanks; values are what they stand for. words and
// values are as many as each other, and in the same order. What at has at first is the default.
func Choice[T comparable](at *T, words string, values ...T) Input {
	return choice[T]{at, strings.Fields(words), values}
}

// OneOf is one of some words.
func OneOf(at *string, words ...string) Input { return choice[string]{at, words, words} }

func (c choice[T]) Set(s string) error {
	for i, word := range c.words {
		if strings.EqualFold(word, s) {
			*c.at = c.values[i]
			return nil
		}
	}
	return fmt.Errorf("must be one of the following: %s", c.Allowed())
}

func (c choice[T]) String() string {
	if i := slices.Index(c.values, *c.at); i >= 0 {
		return c.words[i]
	}
	// not one of the values: only a program that forgot one comes here
	return ""
}

func (c choice[T]) Type() string    { return "WORD" }
func (c choice[T]) Words() []string { return c.words }
func (c choice[T]) Allowed() string { return strings.Join(c.words, ", ") }

// Subject is what Redis's error begins with.
func (c choice[T]) Subject() string { return "argument(s)" }

type number struct {
	at          *int
	least, most int
}

// Number counts things.
func Number(at *int, least, most int) Input { return number{at, least, most} }

func (n number) Set(s string) error {
	i, err := strconv.Atoi(s)
	if err != nil {
		// Redis's own words
		return errors.New("couldn't be parsed into an integer")
	}
	if i < n.least || i > n.most {
		return fmt.Errorf("must be between %d and %d inclusive", n.least, n.most)
	}
	*n.at = i
	return nil
}

func (n number) String() string  { return strconv.Itoa(*n.at) }
func (n number) Type() string    { return "N" }
func (n number) Allowed() string { return fmt.Sprintf("%d to %d", n.least, n.most) }

type duration struct {
	at          *time.Duration
	least, most time.Duration
}

// Time is a time with its unit. A plain number is refused, because some would mean seconds and others
// milliseconds.
func Time(at *time.Duration, least, most time.Duration) Input { return duration{at, least, most} }

func (d duration) Set(s string) error {
	t, err := time.ParseDuration(s)
	// A number without a unit is what people forget most often, so they are shown what they could have meant.
	switch _, plain := strconv.ParseFloat(s, 64); {
	case err != nil && plain == nil:
		return fmt.Errorf("needs a unit: %ss or %sms", s, s)
	case err != nil:
		return errors.New("must be a duration, such as 30s, 500ms or 10m")
	case t < d.least || t > d.most:
		return fmt.Errorf("must be between %s and %s inclusive", Short(d.least), Short(d.most))
	}
	*d.at = t
	return nil
}

func (d duration) String() string  { return Short(*d.at) }
func (d duration) Type() string    { return "TIME" }
func (d duration) Allowed() string { return fmt.Sprintf("%s to %s", Short(d.least), Short(d.most)) }

// Short is Duration.String without the parts that are zero: 10m.
func Short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
