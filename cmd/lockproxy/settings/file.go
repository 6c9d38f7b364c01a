package settings

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"lockproxy/internal/resp"
)

// readFile reads a config file: one setting a line, its name and its value, as in redis.conf. Lines that
// begin with # are comments. A value with spaces stands in quotes. The error is about the file as a whole;
// what is wrong with single lines is in them.
func readFile(path string) ([]given, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", path, errors.Unwrap(err))
	}
	return parseFile(path, string(text)), nil
}

// parseFile reads the lines of a config file; path is for messages. Each line that is no comment is one
// given, right or wrong.
func parseFile(path, text string) []given {
	var all []given
	lines := make(map[string]int) // where a setting stands
	for i, line := range strings.Split(text, "\n") {
		// a byte order mark, which editors on Windows put in front
		line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		if line == "" || line[0] == '#' {
			continue
		}
		place := fmt.Sprintf("%s:%d: ", path, i+1)
		g := parseLine(line, place)
		g.place, g.line = place, i+1
		// Redis takes the last one. Here two lines of one setting are most likely a mistake of a merge.
		if first := lines[g.name]; g.wrong == nil && first != 0 {
			g.wrong = fmt.Errorf("%s%s: stands in line %d already", place, g.name, first)
		}
		if g.wrong == nil {
			lines[g.name] = g.line
		}
		all = append(all, g)
	}
	return all
}

// parseLine reads one line; place stands before every error.
func parseLine(line, place string) given {
	// At least one word: the line is neither empty nor a comment.
	words, err := SplitWords(line)
	if err != nil {
		name := line[:strings.IndexAny(line, " \t\r\"'=:\x00")] // nothing of the value: it may be a secret
		return given{name: strings.ToLower(name), wrong: fmt.Errorf("%s%s: %w", place, name, err)}
	}
	word := words[0][:strings.IndexAny(words[0]+"=", "=:")] // as above: name=value
	name := strings.ToLower(word)
	if name == "config" {
		return given{wrong: errors.New(place + "config: a config file cannot name another one")}
	}
	s := Find(name)
	if s == nil {
		return stranger(name, place+word, func(near string) string { return near })
	}
	g := given{name: name}
	switch {
	case word != words[0]:
		g.wrong = fmt.Errorf("%s%s: a space parts it from its value", place, name)
	case len(words) == 1:
		g.wrong = fmt.Errorf("%s%s: needs a value; allowed: %s", place, name, s.at.Allowed)
	// Most often it is a comment behind the value, which redis.conf does not know either.
	case len(words) > 2:
		g.wrong = fmt.Errorf("%s%s: takes one value, and %d words follow: quote a value with "+
			"spaces, put a comment on a line of its own", place, name, len(words)-1)
	default:
		g.value, g.where = words[1], place+name+" "+s.shownValue(words[1])
	}
	return g
}

// SplitWords splits a line as Redis does (sdssplitargs): "double quotes" know \n \r \t \b \a \\ \" and \xHH,
// 'single quotes' know \'. Programs that write passwords (package files) are split so, too: no shell is
// between.
func SplitWords(line string) ([]string, error) {
	if strings.Contains(line, "\x00") {
		return nil, errors.New("has a zero byte")
	}
	// The blank in front: Split takes a line that begins with * for RESP, and not for words.
	args, _, err := resp.Split([]byte(" "+line), nil)
	if err != nil {
		return nil, errors.New("its quotes are not balanced, or something follows a closing quote " +
			"without a space")
	}
	var words []string
	for _, arg := range args {
		words = append(words, string(arg))
	}
	return words, nil
}
