package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A transcript is a conversation of several connections with a server:
//
//	# a comment
//	targets: dev single cluster        (where it runs; all of these if not said)
//	a> LOCK job PX 5000                connection a sends, opening if need be; what it
//	                                   sends in lines that follow is one write
//	a< ["<t1>", (integer) <f1>, (integer) <1..5000>, (integer) 1]
//	b3> HGETALL h                      connection b sends, and speaks RESP3
//	b< (blocks)                        nothing comes within 100 ms
//	b< (closed)                        the server closes
//	a! close                           the client closes
//	sleep 100ms
//
// Replies are written as reply.String writes them. In them <name> stands for
// any word and then keeps its value, also in commands; <f2 > f1> for an integer
// above an earlier one, <1..5000> for one in a range, <any> for anything. A line
// that starts with a blank carries on the line before it.
type transcript struct {
	targets []string
	steps   []step
}

type step struct {
	line  int
	conn  string // one letter; "" for sleep
	resp3 bool
	op    byte // '>' '<' '!' or 's'
	text  string
}

var stepLine = regexp.MustCompile(`^([a-z])(3?)([<>!]) (.*)$`)

func parseTranscript(text string) (*transcript, error) {
	tr := &transcript{targets: []string{"dev", "single", "cluster"}}
	for i, line := range strings.Split(text, "\n") {
		n := i + 1
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || strings.HasPrefix(line, "#"):
		case line[0] == ' ' || line[0] == '\t':
			if len(tr.steps) == 0 {
				return nil, fmt.Errorf("line %d carries on nothing", n)
			}
			tr.steps[len(tr.steps)-1].text += " " + trimmed
		case strings.HasPrefix(line, "targets: "):
			tr.targets = strings.Fields(line)[1:]
		case strings.HasPrefix(line, "sleep "):
			tr.steps = append(tr.steps, step{line: n, op: 's', text: strings.Fields(line)[1]})
		default:
			m := stepLine.FindStringSubmatch(line)
			if m == nil {
				return nil, fmt.Errorf("line %d is no step: %s", n, line)
			}
			tr.steps = append(tr.steps, step{n, m[1], m[2] != "", m[3][0], m[4]})
		}
	}
	return tr, nil
}

// play runs the transcript against a server.
func (tr *transcript) play(addr string) error {
	p := player{addr: addr, conns: map[string]*conn{}, bound: map[string]string{}}
	defer func() {
		for _, c := range p.conns {
			c.Close()
		}
	}()
	for i, s := range tr.steps {
		err := p.step(s)
		if last := i+1 == len(tr.steps) || tr.steps[i+1].op != '>' || tr.steps[i+1].conn != s.conn; err == nil && last {
			err = p.flush(s.conn)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", s.line, err)
		}
	}
	for name, c := range p.conns {
		if !c.silent(30*time.Millisecond) && c.r.Buffered() > 0 {
			v, _ := c.receive(patience)
			return fmt.Errorf("at the end %s still had a reply: %s", name, v)
		}
	}
	return nil
}

// player is where a transcript stands.
type player struct {
	addr    string
	conns   map[string]*conn
	bound   map[string]string
	pending []byte // commands of one connection that follow each other
}

// flush sends what is pending, in one write.
func (p *player) flush(name string) error {
	if len(p.pending) == 0 {
		return nil
	}
	_, err := p.conns[name].Write(p.pending)
	p.pending = nil
	return err
}

func (p *player) step(s step) error {
	if s.op == 's' {
		d, err := time.ParseDuration(s.text)
		time.Sleep(d)
		return err
	}
	c := p.conns[s.conn]
	if c == nil {
		var err error
		if c, err = dial(p.addr); err != nil {
			return err
		}
		p.conns[s.conn] = c
		if s.resp3 {
			if v, err := c.do("HELLO", "3"); err != nil || v.isError() {
				return fmt.Errorf("HELLO 3: %s %v", v, err)
			}
		}
	}
	switch {
	case s.op == '!' && s.text == "close":
		delete(p.conns, s.conn)
		return c.Close()
	case s.op == '>':
		args, err := splitArgs(p.fill(s.text))
		if err != nil {
			return err
		}
		p.pending = append(p.pending, encode(args...)...)
		return nil
	case s.op == '<' && s.text == "(blocks)":
		if !c.silent(100 * time.Millisecond) {
			v, err := c.receive(patience)
			return fmt.Errorf("%s did not block: %s %v", s.conn, v, err)
		}
		return nil
	case s.op == '<' && s.text == "(closed)":
		if !c.closed(patience) {
			return fmt.Errorf("%s was not closed", s.conn)
		}
		return nil
	case s.op == '<':
		v, err := c.receive(patience)
		if err != nil {
			return fmt.Errorf("%s got no reply: %v", s.conn, err)
		}
		return p.match(s.text, v.String())
	}
	return fmt.Errorf("what is %c %s?", s.op, s.text)
}

var placeholder = regexp.MustCompile(`<(\w+(?: > \w+)?|\d+\.\.\d+)>`)

// fill puts in the values of names that are known.
func (p *player) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(ph string) string {
		if v, ok := p.bound[ph[1:len(ph)-1]]; ok {
			return v
		}
		return ph
	})
}

// match compares a reply with what was expected and binds its names.
func (p *player) match(want, got string) error {
	var pattern strings.Builder
	var names []string
	want = p.fill(want)
	at := 0
	for _, m := range placeholder.FindAllStringIndex(want, -1) {
		pattern.WriteString(regexp.QuoteMeta(want[at:m[0]]))
		at = m[1]
		name := want[m[0]+1 : m[1]-1]
		names = append(names, name)
		switch {
		case name == "any":
			pattern.WriteString(`((?s:.*))`)
		case strings.Contains(name, "..") || strings.Contains(name, " > "):
			pattern.WriteString(`(-?\d+)`)
		default:
			pattern.WriteString(`([^",\]\s]+)`)
		}
	}
	pattern.WriteString(regexp.QuoteMeta(want[at:]))
	found := regexp.MustCompile("^" + pattern.String() + "$").FindStringSubmatch(got)
	if found == nil {
		return fmt.Errorf("\n got %s\nwant %s", got, want)
	}
	for i, name := range names {
		if err := p.bind(name, found[i+1]); err != nil {
			return fmt.Errorf("%w\n got %s\nwant %s", err, got, want)
		}
	}
	return nil
}

func (p *player) bind(name, value string) error {
	if low, high, ok := strings.Cut(name, ".."); ok {
		n, _ := strconv.Atoi(value)
		l, _ := strconv.Atoi(low)
		h, _ := strconv.Atoi(high)
		if n < l || n > h {
			return fmt.Errorf("%d is not in %s", n, name)
		}
		return nil
	}
	name, than, above := strings.Cut(name, " > ")
	if above {
		n, _ := strconv.ParseInt(value, 10, 64)
		m, err := strconv.ParseInt(p.bound[than], 10, 64)
		if err != nil || n <= m {
			return fmt.Errorf("%s is not above %s, %q", value, than, p.bound[than])
		}
	}
	if old, ok := p.bound[name]; ok && old != value {
		return fmt.Errorf("%s is %s, and was %s", name, value, old)
	}
	if name != "any" {
		p.bound[name] = value
	}
	return nil
}

// splitArgs reads a command as redis-cli reads a line: words, and strings in
// double quotes with \n, \r, \t, \xHH, \\ and \".
func splitArgs(line string) ([]string, error) {
	var args []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			args, line = append(args, word), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return nil, fmt.Errorf("quotes of %s: %v", line, err)
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, err
		}
		args, line = append(args, arg), line[len(quoted):]
	}
	return args, nil
}

// TestTranscripts plays each file of testdata/transcripts against a proxy over
// each kind of upstream; those of plain commands also against a bare Redis, to
// show that what they expect is what Redis says.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	targets := map[string]func(*testing.T) string{
		"redis":  func(t *testing.T) string { return startRedis(t).addr },
		"dev":    func(t *testing.T) string { return startProxy(t, "--dev").addr },
		"single": func(t *testing.T) string { return startProxy(t, "--upstream", startRedis(t).addr).addr },
		"cluster": func(t *testing.T) string {
			return startProxy(t, "--upstream", startCluster(t, 3, 0).nodes[0].addr).addr
		},
	}
	for target, start := range targets {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			addr := start(t)
			for _, file := range files {
				playFile(t, file, target, addr)
			}
		})
	}
}

func playFile(t *testing.T, file, target, addr string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := parseTranscript(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if !slices.Contains(tr.targets, target) {
		return
	}
	t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
		steady(t, func() error {
			if _, err := ask(addr, "FLUSHALL"); err != nil {
				return err
			}
			if err := tr.play(addr); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			return nil
		})
	})
}

// A runner that accepts everything would prove nothing.
func TestTranscriptRunnerFails(t *testing.T) {
	addr := startRedis(t).addr
	for _, text := range []string{
		"a> SET k v\na< \"OK\"",
		"a> PING\na< (blocks)",
		"a> PING",
		"a> INCR n\na< (integer) <n>\na> INCR n\na< (integer) <n>",
		"a> SET n 5\na< OK\na> INCR n\na< (integer) <7..9>",
		"a> SET x 5\na< OK\na> INCR x\na< (integer) <f1>\na> DECR x\na< (integer) <f2 > f1>",
		"a> NOSUCH\na< (error) ERR",
	} {
		tr, err := parseTranscript(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.play(addr); err == nil {
			t.Errorf("passed:\n%s", text)
		}
	}
}
