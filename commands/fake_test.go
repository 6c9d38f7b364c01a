package commands

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// fakeSession implements Actions over masters that are functions.
type fakeSession struct {
	fakeFan
	fakeLogins
	t       *testing.T
	masters []func(args []string) string // index: the master
	client  Client
	server  *fakeServer
	table   *Table

	answer    []byte   // the last one
	forwarded []int    // slots of Forward
	sent      []string // "master: COMMAND arg ..." of Ask and AskAll
	closed    bool
	answers   int
	call      *Call
	lost      func() // of the last Ask
	mu        sync.Mutex
	clients   fakeClientsState
	pushed    string          // by Pusher
	ctx       context.Context // of tasks; nil: one that does not end
	census    fakeCensus
}

// fakeServer implements Server.
type fakeServer struct {
	books     fakeBooks
	password  string
	version   string
	clustered bool
	scripts   *Scripts
	settings  map[string]string
	facts     Facts
	fakeFace
}

func (s *fakeServer) AuthRequired() bool                       { return s.password != "" }
func (s *fakeServer) UsersOnly() bool                          { return false }
func (s *fakeServer) LoginEnded(*Client, string, bool, []byte) {}

func (s *fakeServer) CheckAuth(user, password []byte) bool {
	return string(user) == "default" && string(password) == s.password
}
func (s *fakeServer) Config() Config       { return s }
func (s *fakeServer) Scripts() *Scripts    { return s.scripts }
func (s *fakeServer) RedisVersion() string { return s.version }
func (s *fakeServer) Clustered() bool      { return s.clustered }
func (s *fakeServer) Facts() Facts         { return s.facts }

func (s *fakeServer) Get(glob string) (found [][2]string) {
	for name, value := range s.settings {
		if glob == "*" || glob == name {
			found = append(found, [2]string{name, value})
		}
	}
	slices.SortFunc(found, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return found
}

func (s *fakeServer) SetAll(pairs [][2]string) error {
	for _, p := range pairs {
		if _, ok := s.settings[p[0]]; !ok {
			return unknownSetting(p[0])
		}
		s.settings[p[0]] = p[1]
	}
	return nil
}

type unknownSetting string

func (e unknownSetting) Error() string {
	return "ERR Unknown option or number of arguments for CONFIG SET - '" + string(e) + "'"
}

// newFake is a session of a client over the given masters; without any, over one
// that answers OK.
func newFake(t *testing.T, masters ...func(args []string) string) *fakeSession {
	return newFakeWith(t, redis7(t), masters...)
}

func newFakeWith(t *testing.T, table *Table, masters ...func(args []string) string) *fakeSession {
	if len(masters) == 0 {
		masters = append(masters, func([]string) string { return "+OK\r\n" })
	}
	return &fakeSession{
		t: t, masters: masters, table: table,
		client: Client{ID: 7, Addr: "127.0.0.1:1234", LocalAddr: "127.0.0.1:6380", Created: time.Now(), Proto: 2, Authenticated: true},
		server: &fakeServer{version: "7.0.15", scripts: NewScripts(100), settings: map[string]string{"lock-lease": "30s"}},
	}
}

// redis7 is the table of Redis 7.0.15.
func redis7(t testing.TB, verbs ...*Command) *Table {
	table, err := NewTableOf(testdata(t, "command-7.0.15.resp"), verbs, RefusedByDefault()...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func testdata(t testing.TB, name string) []byte {
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// do has a command run and returns its answer. Words are cut at spaces; "" in the
// line is an empty argument.
func (f *fakeSession) do(line string) string {
	f.t.Helper()
	return f.args(strings.Fields(strings.ReplaceAll(line, `""`, "\x00"))...)
}

func (f *fakeSession) args(words ...string) string {
	f.t.Helper()
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(strings.ReplaceAll(word, "\x00", ""))
	}
	raw := resp.AppendCommand(nil, args...)
	f.answer, f.answers, f.forwarded, f.sent = nil, 0, nil, nil
	cmd, refused := f.table.Resolve(args)
	if refused != nil {
		return string(refused)
	}
	f.call = &Call{Command: cmd, Args: args, Raw: raw, Client: &f.client, Table: f.table, Server: f.server, Actions: f}
	f.dispatch(cmd, args, raw)
	for _, b := range args {
		clear(b) // the buffer is used again: nothing may still point into it
	}
	clear(raw)
	if f.answers != 1 {
		f.t.Fatalf("%q was answered %d times", words, f.answers)
	}
	return string(f.answer)
}

// dispatch goes the way that package proxy goes.
func (f *fakeSession) dispatch(cmd *Command, args [][]byte, raw []byte) {
	switch cmd.Route {
	case Local:
		cmd.Run(f.call)
	case Refused:
		f.Reply(cmd.Refusal())
	case AnyNode:
		f.Forward(AnySlot)
	case AllNodes:
		f.AskAll(raw, Asking{Resend: cmd.Flags&ReadOnly != 0}, cmd.Merge)
	default:
		n, err := cmd.Slot(args)
		switch {
		case len(f.masters) == 1 || err == nil:
			f.Forward(n)
		case err == ErrCrossSlot && cmd.Route == Split:
			f.split(cmd, args)
		default:
			f.Reply(resp.ErrorLine("%s", err))
		}
	}
}

func (f *fakeSession) split(cmd *Command, args [][]byte) {
	parts, merge := cmd.SplitBySlot(args)
	var replies [][]byte
	for _, part := range parts {
		replies = append(replies, f.ask(part.Slot%len(f.masters), part.Request))
	}
	f.Reply(merge(f.client.Proto, replies))
}

// ask has a master answer.
func (f *fakeSession) ask(master int, req []byte) []byte {
	words := commandWords(f.t, req)
	f.sent = append(f.sent, string(rune('0'+master))+": "+strings.Join(words, " "))
	return []byte(f.masters[master](words))
}

// commandWords are the arguments of a whole command.
func commandWords(t *testing.T, req []byte) (words []string) {
	t.Helper()
	v, rest, err := resp.Parse(req)
	if err != nil || len(rest) > 0 {
		t.Fatalf("not one command: %q", req)
	}
	for _, e := range v.Elems {
		words = append(words, e.Text())
	}
	return words
}

func commandLine(t *testing.T, req []byte) string { return strings.Join(commandWords(t, req), " ") }

func (f *fakeSession) Reply(reply []byte) {
	f.answers++
	f.answer = slices.Clone(reply)
}

func (f *fakeSession) Forward(slot int) {
	f.forwarded = append(f.forwarded, slot)
	f.Reply(f.ask(max(slot, 0)%len(f.masters), f.call.Raw))
}

func (f *fakeSession) Ask(to cluster.Target, req []byte, o Asking, then func([]byte) []byte) {
	master := max(targetSlot(to), 0) % len(f.masters)
	for i := range f.masters {
		if to == cluster.ToMaster(i) {
			master = i
		}
	}
	f.lost = o.Lost
	reply := f.ask(master, req)
	*f.call = Call{} // it is over when then runs
	if answer := then(reply); answer != nil {
		f.Reply(answer)
	}
}

// targetSlot is the slot of a target, or AnySlot.
func targetSlot(to cluster.Target) int {
	for n := range slot.Count {
		if to == cluster.ToSlot(n) {
			return n
		}
	}
	return AnySlot
}

func (f *fakeSession) AskAll(req []byte, o Asking, merge Merge) {
	if o.Own {
		f.apart++
	}
	var replies [][]byte
	for i := range f.masters {
		replies = append(replies, f.ask(i, req))
	}
	proto := f.client.Proto
	*f.call = Call{}
	if answer := merge(proto, replies); answer != nil {
		f.Reply(answer)
	}
}

func (f *fakeSession) Task(task func(context.Context) []byte, _ func()) {
	ctx := f.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	*f.call = Call{} // it is over when task runs
	f.Reply(task(ctx))
}

func (f *fakeSession) Await(start func(func([]byte)), then func([]byte) []byte, _ func()) {
	replies := make(chan []byte, 1)
	*f.call = Call{} // it is over when then runs
	start(func(reply []byte) { replies <- reply })
	if answer := then(<-replies); answer != nil {
		f.Reply(answer)
	}
}

func (f *fakeSession) Pusher() func(func(proto int) []byte) {
	return func(message func(proto int) []byte) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.pushed += string(message(f.client.Proto))
	}
}

func (f *fakeSession) Gone() bool { return false }
func (f *fakeSession) Close()     { f.closed = true }

// node is a master that always answers the same.
func node(reply string) func([]string) string { return func([]string) string { return reply } }

// converse sends one command and reads one reply.
func converse(t *testing.T, conn net.Conn, words ...string) []byte {
	t.Helper()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := conn.Write(resp.AppendCommandStrings(nil, words...)); err != nil {
		t.Fatal(err)
	}
	var reply []byte
	for buf := make([]byte, 64<<10); ; {
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		reply = append(reply, buf[:n]...)
		var f resp.Framer
		if size, done, err := f.Next(reply); err != nil || done && size < len(reply) {
			t.Fatalf("%q: %q, %v", words, reply, err)
		} else if done {
			return reply
		}
	}
}

func split(line string) [][]byte {
	var args [][]byte
	for _, word := range strings.Fields(line) {
		args = append(args, []byte(word))
	}
	return args
}

// sampleVerbs look like the lock verbs.
func sampleVerbs() []*Command {
	run := func(c *Call) { c.Reply(resp.OK) }
	key := []KeySpec{{Begin: 1, Flags: []string{"RW", "access", "update"}}}
	return []*Command{
		{
			Name: "lock", Arity: -2, Flags: Write | Blocking | LockVerb, Keys: key, Route: Local, Run: run,
			Docs: &Docs{Summary: "Takes a lock", Since: "0.1.0", Group: "lock", Complexity: "O(1)", Arguments: []Argument{
				{Name: "key", Type: "key"},
				{Name: "token", Type: "string", Token: "TOKEN", Optional: true},
				{Name: "lease", Type: "oneof", Optional: true, Arguments: []Argument{
					{Name: "milliseconds", Type: "integer", Token: "PX"},
					{Name: "seconds", Type: "integer", Token: "EX"},
				}},
				{Name: "reentrant", Type: "pure-token", Token: "REENTRANT", Optional: true},
			}},
		},
		{
			Name: "lockctl", Arity: -2, Flags: LockVerb, Route: Local, Run: noSubcommand,
			Docs: &Docs{Summary: "Tells of locks", Since: "0.1.0", Group: "lock"},
			Subs: map[string]*Command{
				"info": {Name: "lockctl|info", Arity: 3, Flags: ReadOnly | LockVerb, Keys: []KeySpec{{Begin: 2, Flags: []string{"RO", "access"}}}, Route: Local, Run: run,
					Docs: &Docs{Summary: "Tells of one lock", Since: "0.1.0", Group: "lock", Arguments: []Argument{{Name: "key", Type: "key"}}}},
				"stats": {Name: "lockctl|stats", Arity: 2, Flags: LockVerb, Route: Refused, Reason: " yet: it comes later"},
				"help":  {Name: "lockctl|help", Arity: 2, Flags: LockVerb, Route: Local, Run: run, Docs: &Docs{Summary: "Prints help", Since: "0.1.0", Group: "lock"}},
			},
		},
	}
}

// miniRedis is the table of the Redis in memory: that of Redis 5.
func miniRedis(t *testing.T, verbs ...*Command) *Table {
	conn, err := net.Dial("tcp", miniredis.RunT(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	table, err := NewTableOf(converse(t, conn, "COMMAND"), verbs, RefusedByDefault()...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}
