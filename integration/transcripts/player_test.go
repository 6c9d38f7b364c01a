package transcripts

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"lockproxy/integration/rig"
)

// transcript is a conversation of several connections with a server:
//
//	# a comment
//	targets: dev single cluster        (where it runs; all of these if not said)
//	a> LOCK job PX 5000                connection a sends, opening if need be; what it
//	                                   sends in lines that follow is one write
//	a< ["<t1>", (integer) <f1>, (integer) <1..5000>, (integer) 1]
//	since redis 7.2: ["<t1>"]          instead of the reply before, in the words of newer servers
//	before redis 7.0: [(nil)]          and of older ones; the last line that holds counts
//	b3> HGETALL h                      connection b sends, and speaks RESP3
//	a~ (integer) 0                     asked again and again until this is the reply
//	b< (blocks)                        nothing comes within 100 ms
//	b< (closed)                        the server closes
//	a! close                           the client closes
//	sleep 100ms
//
// Replies are written as Reply.String writes them. In them <name> stands for
// any word and then keeps its value, also in commands; <f2 > f1> for an integer
// above an earlier one, <1..5000> for one in a range, <any> for anything. A line
// that starts with a blank carries on the line before it. A Valkey is the Redis that it says it is compatible
// with; its own version is meant by "since valkey 8.1". The Redis in memory is neither old nor new.
//
// A transcript that has "needs: since redis 7.0" on top is not for older servers.
type transcript struct {
	targets []string
	needs   []wording // the servers that it is for
	steps   []step
}

type step struct {
	line  int
	conn  string // one letter; "" for sleep
	resp3 bool
	op    byte // '>' '<' '~' '!' or 's'
	text  string
	other []wording
}

// wording is another text of a step, for some servers.
type wording struct {
	since bool   // or before
	at    string // "redis 7.2"
	text  string
}

// String is the condition: "since redis 7.2".
func (w wording) String() string {
	if w.since {
		return "since " + w.at
	}
	return "before " + w.at
}

// of says that the wording is one of a server's.
func (w wording) of(r rig.Release) bool {
	product, _, _ := strings.Cut(w.at, " ")
	return r[product] != "" && r.Since(w.at) == w.since
}

// by is the step in the words of a server.
func (s step) by(r rig.Release) step {
	for _, w := range s.other {
		if w.of(r) {
			s.text = w.text
		}
	}
	return s
}

var wordingLine = regexp.MustCompile(`^(since|before) ((?:redis|valkey) [0-9.]+): (.*)$`)

var stepLine = regexp.MustCompile(`^([a-z])(3?)([<>~!]) (.*)$`)

// parse reads one.
func parse(text string) (*transcript, error) {
	tr := &transcript{targets: []string{"dev", "single", "cluster"}}
	for i, line := range strings.Split(text, "\n") {
		n := i + 1
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || strings.HasPrefix(line, "#"):
		case line[0] == ' ' || line[0] == '\t':
			if len(tr.steps) == 0 {
				return nil, fmt.Errorf("line %d carries on nothing", n)
			}
			text := &tr.steps[len(tr.steps)-1].text
			if other := tr.steps[len(tr.steps)-1].other; len(other) > 0 {
				text = &other[len(other)-1].text
			}
			*text += " " + trimmed
		case strings.HasPrefix(line, "targets: "):
			tr.targets = strings.Fields(line)[1:]
		case strings.HasPrefix(line, "needs: "):
			m := wordingLine.FindStringSubmatch(strings.TrimPrefix(line, "needs: ") + ": ")
			if m == nil {
				return nil, fmt.Errorf("line %d does not say what is needed: %s", n, line)
			}
			tr.needs = append(tr.needs, wording{since: m[1] == "since", at: m[2]})
		case wordingLine.MatchString(line):
			m := wordingLine.FindStringSubmatch(line)
			if len(tr.steps) == 0 || tr.steps[len(tr.steps)-1].op != '<' {
				return nil, fmt.Errorf("line %d is no other wording of a reply", n)
			}
			last := &tr.steps[len(tr.steps)-1]
			last.other = append(last.other, wording{m[1] == "since", m[2], m[3]})
		case strings.HasPrefix(line, "sleep "):
			tr.steps = append(tr.steps, step{line: n, op: 's', text: strings.Fields(line)[1]})
		default:
			m := stepLine.FindStringSubmatch(line)
			if m == nil {
				return nil, fmt.Errorf("line %d is no step: %s", n, line)
			}
			tr.steps = append(tr.steps, step{line: n, conn: m[1], resp3: m[2] != "", op: m[3][0], text: m[4]})
		}
	}
	return tr, nil
}

// misses says what the transcript needs and the server is not; "": nothing.
func (tr *transcript) misses(addr string) (string, error) {
	is, err := rig.AskRelease(addr)
	if err != nil || is == nil {
		return "", err
	}
	for _, w := range tr.needs {
		product, _, _ := strings.Cut(w.at, " ")
		if !w.of(is) && (w.since || is[product] != "") {
			return w.String(), nil
		}
	}
	return "", nil
}

// play runs the transcript against the player's server.
func (tr *transcript) play(p *player) error {
	is, err := rig.AskRelease(p.addr)
	if err != nil {
		return err
	}
	defer func() {
		for _, c := range p.conns {
			c.Close()
		}
	}()
	for i, s := range tr.steps {
		err := p.step(s.by(is))
		last := i+1 == len(tr.steps) || tr.steps[i+1].op != '>' || tr.steps[i+1].conn != s.conn
		if err == nil && last {
			err = p.flush(s.conn)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", s.line, err)
		}
	}
	for name, c := range p.conns {
		if !c.Silent(p.ends) && c.Reader.Buffered() > 0 {
			v, _ := c.Receive(rig.Patience)
			return fmt.Errorf("at the end %s still had a reply: %s", name, v)
		}
	}
	return nil
}

// player is where a transcript stands.
type player struct {
	addr    string
	conns   map[string]*rig.Conn
	bound   map[string]string
	pending []byte // commands of one connection that follow each other
	asked   []byte // the last command

	blocks, ends time.Duration // nothing comes for so long when a command blocks, and at the end
}

func newPlayer(addr string) *player {
	return &player{addr: addr, conns: map[string]*rig.Conn{}, bound: map[string]string{},
		blocks: 100 * time.Millisecond, ends: 30 * time.Millisecond}
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
		if c, err = rig.Dial(p.addr); err != nil {
			return err
		}
		p.conns[s.conn] = c
		if s.resp3 {
			if v, err := c.Do("HELLO", "3"); err != nil || v.IsError() {
				return fmt.Errorf("HELLO 3: %s %v", v, err)
			}
		}
	}
	switch {
	case s.op == '!' && s.text == "close":
		delete(p.conns, s.conn)
		return c.Close()
	case s.op == '>':
		args, err := rig.SplitArgs(p.fill(s.text))
		if err != nil {
			return err
		}
		p.asked = rig.Encode(args...)
		p.pending = append(p.pending, p.asked...)
		return nil
	case s.op == '~':
		return p.until(c, s.text)
	case s.op == '<' && s.text == "(blocks)":
		if !c.Silent(p.blocks) {
			v, err := c.Receive(rig.Patience)
			return fmt.Errorf("%s did not block: %s %v", s.conn, v, err)
		}
		return nil
	case s.op == '<' && s.text == "(closed)":
		if !c.Closed(rig.Patience) {
			return fmt.Errorf("%s was not closed", s.conn)
		}
		return nil
	case s.op == '<':
		v, err := c.Receive(rig.Patience)
		if err != nil {
			return fmt.Errorf("%s got no reply: %v", s.conn, err)
		}
		return p.match(s.text, v.String())
	}
	return fmt.Errorf("what is %c %s?", s.op, s.text)
}

// until asks the last command again until want is the reply.
func (p *player) until(c *rig.Conn, want string) error {
	for tries := rig.Patience / untilPause; ; tries-- {
		v, err := c.Receive(rig.Patience)
		if err != nil {
			return err
		}
		if err = p.match(want, v.String()); err == nil || tries == 0 {
			return err
		}
		time.Sleep(untilPause)
		if _, err := c.Write(p.asked); err != nil {
			return err
		}
	}
}

const untilPause = 10 * time.Millisecond

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
