package settings

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"lockproxy/cluster"
	"lockproxy/cmd/lockproxy/kind"
)

// user, password and command are texts that several settings are.
func user(at *string) value { return kind.Text(at, "NAME", "an ACL user, empty for default") }

func password(at *string) value { return kind.Text(at, "PASSWORD", "any text, empty for none") }

func command(at *string) value { return kind.Text(at, "COMMAND", "a program and its arguments") }

// size is a number of bytes, written as in redis.conf: 1k is 1000, 1kb is 1024.
type size struct {
	at       *int
	min, max int64
}

func (z size) Set(s string) error {
	n, err := parseSize(s)
	if err != nil {
		return err
	}
	if n < z.min || n > z.max {
		return fmt.Errorf("must be between %d and %d inclusive", z.min, z.max)
	}
	*z.at = int(n)
	return nil
}

func (z size) String() string { return strconv.Itoa(*z.at) }
func (z size) Type() string   { return "SIZE" }
func (z size) Short() string  { return formatSize(int64(*z.at)) }

func (z size) Allowed() string {
	return fmt.Sprintf("%s to %s", formatSize(z.min), formatSize(z.max))
}

// sizeUnits are those of redis.conf.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	// Longer names first, for each of them ends with a shorter one.
	{"gb", 1 << 30}, {"mb", 1 << 20}, {"kb", 1 << 10},
	{"g", 1e9}, {"m", 1e6}, {"k", 1e3}, {"b", 1}, {"", 1},
}

// parseSize reads a number of bytes with its unit. Units are in any case, as in Redis.
func parseSize(s string) (int64, error) {
	s = strings.ToLower(s)
	for _, unit := range sizeUnits {
		digits, ok := strings.CutSuffix(s, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		// the product must fit into an int64
		if err != nil || n < 0 || n > (1<<62)/unit.bytes {
			break
		}
		return n * unit.bytes, nil
	}
	return 0, errors.New("must be a memory value")
}

// formatSize is n in the largest unit of 1024s that shows it exactly.
func formatSize(n int64) string {
	for _, unit := range sizeUnits[:3] {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// seconds is a time for which Redis has a parameter of the same name: a plain number of seconds, as there, or
// a duration of whole seconds. String is plain seconds, which is what clients of CONFIG GET expect.
type seconds struct {
	at  *time.Duration
	max int64
}

func (z seconds) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t, err := time.ParseDuration(s)
		// 5s is the same as 5, and 500ms cannot be said
		if err != nil || t%time.Second != 0 {
			return errors.New("couldn't be parsed into an integer")
		}
		n = int64(t / time.Second)
	}
	if n < 0 || n > z.max {
		return fmt.Errorf("must be between 0 and %d inclusive", z.max)
	}
	*z.at = time.Duration(n) * time.Second
	return nil
}

func (z seconds) String() string  { return strconv.FormatInt(int64(*z.at/time.Second), 10) }
func (z seconds) Type() string    { return "SECONDS" }
func (z seconds) Allowed() string { return fmt.Sprintf("seconds, 0 to %d", z.max) }

// address is where to listen: host:port, or "" and off for nowhere.
type address struct{ at *string }

func (a address) Set(s string) error {
	if s == "" || strings.EqualFold(s, "off") {
		*a.at = ""
		return nil
	}
	if err := checkHostPort(s); err != nil {
		return err
	}
	*a.at = s
	return nil
}

func (a address) String() string  { return *a.at }
func (a address) Type() string    { return "ADDR" }
func (a address) Allowed() string { return "host:port, or off" }

// list is several texts, separated by commas or spaces. A value that is set is a new slice: the old one may
// be in use.
type list struct {
	at      *[]string
	allowed string
	fold    bool                     // upper case is kept as lower case
	check   func(all []string) error // nil: they may be any
}

func (l list) Set(s string) error {
	if l.fold {
		s = strings.ToLower(s)
	}
	all := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
	if l.check != nil {
		if err := l.check(all); err != nil {
			return err
		}
	}
	*l.at = all
	return nil
}

func (l list) String() string  { return strings.Join(*l.at, ",") }
func (l list) Type() string    { return "LIST" }
func (l list) Allowed() string { return l.allowed }

// addresses are host:port, or with paths also unix sockets. The settings that say the rest of what a URL says
// begin with of; "": none does.
func addresses(at *[]string, paths bool, of string) list {
	allowed := "host:port, several with commas"
	if paths {
		allowed = "host:port or /path, several with commas"
	}
	return list{at: at, allowed: allowed, check: func(all []string) error {
		for i, one := range all {
			switch {
			case strings.Contains(one, "://"): // and maybe with a password, which is not repeated
				return noURL(of)
			case slices.Contains(all[:i], one):
				return fmt.Errorf("names %s twice", one)
			case paths && IsSocket(one):
				continue
			}
			if err := checkHostPort(one); err != nil {
				return err
			}
		}
		return nil
	}}
}

// noURL says what to write for redis://user:password@host:port/1 and its like. The message repeats nothing of
// what was given, which may have a password.
func noURL(of string) error {
	text := "must be host:port, and a URL is not: write localhost:6379 for redis://localhost:6379"
	if of != "" {
		text += ", with upstream-tls yes for rediss:// and valkeys://, and " + of + "-user and " + of +
			"-password; clients choose the database, by SELECT"
	}
	return errors.New(text)
}

// words are any.
func words(at *[]string) list { return list{at: at, allowed: "any words, several with commas"} }

// fewWords are words of which there is a bounded number, each of them with few bytes.
func fewWords(at *[]string, most, longest int) list {
	allowed := fmt.Sprintf("up to %d words of %d bytes, with commas", most, longest)
	return list{at: at, allowed: allowed, check: func(all []string) error {
		if len(all) > most {
			return fmt.Errorf("must be %d words at most, and %d are given", most, len(all))
		}
		for _, one := range all {
			// Prometheus takes labels of UTF-8 alone.
			if len(one) > longest || !utf8.ValidString(one) {
				return fmt.Errorf("must be words of %d bytes of UTF-8 at most, and %.80q is not one", longest,
					one)
			}
		}
		return nil
	}}
}

// hosts are names of this machine without ports.
func hosts(at *[]string) list {
	return list{at: at, allowed: "host names, several with " +
		"commas", fold: true, check: func(all []string) error {
		for _, name := range all {
			// a port, a URL or a pattern: none of them would ever be a Host without its port
			if strings.ContainsAny(name, ":/*") {
				return fmt.Errorf("must be host names without ports, and %q is not one", name)
			}
		}
		return nil
	}}
}

// commandList are names of commands, "config|set" for a subcommand.
func commandList(at *[]string) list {
	allowed := `commands, several with commas, subcommands as config\|set`
	return list{at: at, allowed: allowed, fold: true, check: func(all []string) error {
		for _, name := range all {
			container, sub, isSub := strings.Cut(name, "|")
			if container == "" || isSub && sub == "" || strings.Contains(sub, "|") {
				return errors.New("must be names of commands, such as debug or config|set")
			}
		}
		return nil
	}}
}

// detours are pairs of addresses.
type detours struct{ at *cluster.Detours }

func (d detours) Set(s string) (err error) {
	*d.at, err = cluster.ParseDetours(s)
	return err
}

func (d detours) String() string { return d.at.String() }
func (d detours) Type() string   { return "LIST" }

func (d detours) Allowed() string {
	return "announced=reached, each host:port or a host; commas between several"
}

// IsSocket tells a unix socket from host:port.
func IsSocket(addr string) bool { return strings.Contains(addr, "/") }

// checkHostPort says why s cannot be host:port. The host may be empty, and is not looked up: it may come to
// exist later.
func checkHostPort(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("must be host:port, and %q is not", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("needs a port of 0 to 65535, and %q has not", s)
		// One address has one spelling, or it could be named twice without being noticed.
	} else if strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("has a port with leading zeros: %q", s)
	}
	return nil
}

// prefix is the beginning of the names of keys. Braces in it would put every lock into one slot, or replace
// the lock's own hash tag.
func prefix(at *string) value {
	return kind.Checked(at, "TEXT", "any text without { and }", func(s string) error {
		switch {
		case strings.ContainsAny(s, "{}"):
			return errors.New("must not contain { or }: they would change the slot of every lock")
		case s == "":
			return errors.New("must not be empty: locks would mix with other keys")
		}
		return nil
	})
}
