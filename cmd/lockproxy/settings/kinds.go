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
func size(at *int, least, most int64) value {
	allowed := fmt.Sprintf("%s to %s", formatSize(least), formatSize(most))
	in := kind.Of(at, "SIZE", allowed, func(s string) (int, error) {
		n, err := parseSize(s)
		if err == nil && (n < least || n > most) {
			err = fmt.Errorf("must be between %d and %d inclusive", least, most)
		}
		return int(n), err
	}, strconv.Itoa)
	in.Brief = func() string { return formatSize(int64(*at)) }
	return in
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
// a duration of whole seconds. It is shown in plain seconds, which is what clients of CONFIG GET expect.
func seconds(at *time.Duration, most int64) value {
	allowed := fmt.Sprintf("seconds, 0 to %d", most)
	return kind.Of(at, "SECONDS", allowed, func(s string) (time.Duration, error) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t, err := time.ParseDuration(s)
			// 5s is the same as 5, and 500ms cannot be said
			if err != nil || t%time.Second != 0 {
				return 0, errors.New("couldn't be parsed into an integer")
			}
			n = int64(t / time.Second)
		}
		if n < 0 || n > most {
			return 0, fmt.Errorf("must be between 0 and %d inclusive", most)
		}
		return time.Duration(n) * time.Second, nil
	}, func(t time.Duration) string { return strconv.FormatInt(int64(t/time.Second), 10) })
}

// address is where to listen: host:port, or "" and off for nowhere.
func address(at *string) value {
	return kind.Of(at, "ADDR", "host:port, or off", func(s string) (string, error) {
		if s == "" || strings.EqualFold(s, "off") {
			return "", nil
		}
		return s, checkHostPort(s)
	}, strings.Clone)
}

// list is several texts, separated by commas or spaces. A value that is set is a new slice: the old one may
// be in use. With fold upper case is kept as lower case. check says what is wrong with the i-th of them.
func list(at *[]string, allowed string, fold bool, check func(i int, all []string) error) value {
	return kind.Of(at, "LIST", allowed, func(s string) ([]string, error) {
		if fold {
			s = strings.ToLower(s)
		}
		all := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
		for i := range all {
			if err := check(i, all); err != nil {
				return nil, err
			}
		}
		return all, nil
	}, func(all []string) string { return strings.Join(all, ",") })
}

// addresses are host:port, or with paths also unix sockets. The settings that say the rest of what a URL says
// begin with of; "": none does.
func addresses(at *[]string, paths bool, of string) value {
	allowed := "host:port, several with commas"
	if paths {
		allowed = "host:port or /path, several with commas"
	}
	return list(at, allowed, false, func(i int, all []string) error {
		switch one := all[i]; {
		case strings.Contains(one, "://"): // and maybe with a password, which is not repeated
			return noURL(of)
		case slices.Contains(all[:i], one):
			return fmt.Errorf("names %s twice", one)
		case paths && IsSocket(one):
			return nil
		default:
			return checkHostPort(one)
		}
	})
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
func words(at *[]string) value {
	return list(at, "any words, several with commas", false, func(int, []string) error { return nil })
}

// fewWords are words of which there is a bounded number, each of them with few bytes.
func fewWords(at *[]string, most, longest int) value {
	allowed := fmt.Sprintf("up to %d words of %d bytes, with commas", most, longest)
	return list(at, allowed, false, func(i int, all []string) error {
		switch one := all[i]; {
		case len(all) > most:
			return fmt.Errorf("must be %d words at most, and %d are given", most, len(all))
		// Prometheus takes labels of UTF-8 alone.
		case len(one) > longest || !utf8.ValidString(one):
			return fmt.Errorf("must be words of %d bytes of UTF-8 at most, and %.80q is not one", longest,
				one)
		}
		return nil
	})
}

// hosts are names of this machine without ports.
func hosts(at *[]string) value {
	return list(at, "host names, several with commas", true, func(i int, all []string) error {
		// a port, a URL or a pattern: none of them would ever be a Host without its port
		if strings.ContainsAny(all[i], ":/*") {
			return fmt.Errorf("must be host names without ports, and %q is not one", all[i])
		}
		return nil
	})
}

// commandList are names of commands, "config|set" for a subcommand.
func commandList(at *[]string) value {
	allowed := `commands, several with commas, subcommands as config\|set`
	return list(at, allowed, true, func(i int, all []string) error {
		container, sub, isSub := strings.Cut(all[i], "|")
		if container == "" || isSub && sub == "" || strings.Contains(sub, "|") {
			return errors.New("must be names of commands, such as debug or config|set")
		}
		return nil
	})
}

// detours are pairs of addresses.
func detours(at *cluster.Detours) value {
	return kind.Of(at, "LIST", "announced=reached, each host:port or a host; commas between several",
		cluster.ParseDetours, cluster.Detours.String)
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
	return kind.Of(at, "TEXT", "any text without { and }", func(s string) (string, error) {
		switch {
		case strings.ContainsAny(s, "{}"):
			return "", errors.New("must not contain { or }: they would change the slot of every lock")
		case s == "":
			return "", errors.New("must not be empty: locks would mix with other keys")
		}
		return s, nil
	}, strings.Clone)
}
