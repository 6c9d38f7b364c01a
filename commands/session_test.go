package commands_test

import (
	"context"
	"embed"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/commands/routes"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
	"lockproxy/redlock"
)

// A session is what tests of all packages of commands ask: it finds a command in the table as package proxy
// does and runs it, over masters that are functions, without a proxy, a loop or a socket.
//
//	f := newSession(t, func(args []string) string { return "+OK\r\n" })
//	got := f.Do("CLIENT GETNAME")

// session implements Actions over masters that are functions.
type session struct {
	fakeFan
	fakeLogins
	t       *testing.T
	Masters []func(args []string) string // index: the master
	User    commands.Client
	Server  *fakeServer
	Table   *commands.Table

	Answer           []byte   // the last one
	Forwarded        []int    // slots of Forward
	Sent             []string // "master: COMMAND arg ..." of Ask and AskAll
	Closed           bool
	answers          int
	call             *commands.Call
	Undelivered      redlock.Delivery // of the last SendHome
	mu               sync.Mutex
	Peers            fakeClientsState
	Pushed           string          // by Pusher
	Ctx              context.Context // of tasks; nil: one that does not end
	SubscriberCounts subscriberCounts
}

// fakeServer implements Server.
type fakeServer struct {
	own       fakeOwnStats
	Password  string
	Product   string // "": Redis
	Version   string // of Redis
	Release   string // of the product; "": the same
	InCluster bool
	Store     *commands.Scripts
	Settings  map[string]string
	Told      commands.Facts
	fakeFrontend
}

func (s *fakeServer) AuthRequired() bool                                { return s.Password != "" }
func (s *fakeServer) UsersOnly() bool                                   { return false }
func (s *fakeServer) LoginEnded(*commands.Client, string, bool, []byte) {}
func (s *fakeServer) ConfigSet(*commands.Client, [][2]string)           {}

func (s *fakeServer) CheckAuth(user, password []byte) bool {
	return string(user) == "default" && string(password) == s.Password
}
func (s *fakeServer) Config() commands.Config    { return s }
func (s *fakeServer) Scripts() *commands.Scripts { return s.Store }
func (s *fakeServer) Upstream() cluster.Server {
	return cluster.Server{Product: s.Product, Version: s.Version, Release: s.Release}
}
func (s *fakeServer) Login() *cluster.Login { return new(cluster.Login) }
func (s *fakeServer) Clustered() bool       { return s.InCluster }
func (s *fakeServer) Facts() commands.Facts { return s.Told }

func (s *fakeServer) Get(glob string) (found [][2]string) {
	for name, value := range s.Settings {
		if glob == "*" || glob == name {
			found = append(found, [2]string{name, value})
		}
	}
	slices.SortFunc(found, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return found
}

func (s *fakeServer) SetAll(pairs [][2]string) error {
	for _, p := range pairs {
		if _, ok := s.Settings[p[0]]; !ok {
			return unknownSetting(p[0])
		}
		s.Settings[p[0]] = p[1]
	}
	return nil
}

type unknownSetting string

func (e unknownSetting) Error() string {
	return "ERR Unknown option or number of arguments for CONFIG SET - '" + string(e) + "'"
}

// newSession is a session of a client over the given masters; without any, over one
// that answers OK.
func newSession(t *testing.T, masters ...func(args []string) string) *session {
	return sessionOver(t, redis7(t), masters...)
}

func sessionOver(t *testing.T, table *commands.Table, masters ...func(args []string) string) *session {
	if len(masters) == 0 {
		masters = append(masters, func([]string) string { return "+OK\r\n" })
	}
	return &session{
		t: t, Masters: masters, Table: table,
		User: commands.Client{ID: 7, Addr: "127.0.0.1:1234", LocalAddr: "127.0.0.1:6380",
			Created: time.Now(), Proto: 2, Authenticated: true},
		Server: &fakeServer{Version: "7.0.15", Store: commands.NewScripts(100),
			Settings: map[string]string{"lock-lease": "30s"}},
	}
}

// redis7 is the table of Redis 7.0.15.
func redis7(t testing.TB, verbs ...*commands.Command) *commands.Table {
	table, err := routes.NewTable(testdata(t, "command-7.0.15.resp"), verbs, routes.RefusedByDefault()...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

//go:embed testdata
var files embed.FS

// testdata is what a real server said: command-7.0.15.resp, docs-7.0.15.resp.
func testdata(t testing.TB, name string) []byte {
	b, err := files.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Do has a command run and returns its answer. Words are cut at spaces; "" in the
// line is an empty argument.
func (f *session) Do(line string) string {
	f.t.Helper()
	return f.Args(strings.Fields(strings.ReplaceAll(line, `""`, "\x00"))...)
}

func (f *session) Args(words ...string) string {
	f.t.Helper()
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(strings.ReplaceAll(word, "\x00", ""))
	}
	raw := resp.AppendCommand(nil, args...)
	f.Answer, f.answers, f.Forwarded, f.Sent = nil, 0, nil, nil
	cmd, refused := f.Table.Resolve(args)
	if refused != nil {
		return string(refused)
	}
	f.call = &commands.Call{Command: cmd, Args: args, Raw: raw, Client: &f.User, Table: f.Table,
		Server: f.Server, Actions: f}
	f.dispatch(cmd, args, raw)
	for _, b := range args {
		clear(b) // the buffer is used again: nothing may still point into it
	}
	clear(raw)
	if f.answers != 1 {
		f.t.Fatalf("%q was answered %d times", words, f.answers)
	}
	return string(f.Answer)
}

// dispatch goes the way that package proxy goes.
func (f *session) dispatch(cmd *commands.Command, args [][]byte, raw []byte) {
	switch cmd.Route {
	case commands.Local:
		cmd.Run(f.call)
	case commands.Refused:
		f.Reply(cmd.Refusal())
	case commands.AnyNode:
		f.Forward(commands.AnySlot)
	case commands.AllNodes:
		f.AskAll(raw, commands.Asking{Resend: cmd.Flags&commands.ReadOnly != 0}, cmd.Merge)
	default:
		n, err := cmd.Slot(args)
		switch {
		case len(f.Masters) == 1 || err == nil:
			f.Forward(n)
		case err == commands.ErrCrossSlot && cmd.Route == commands.Split:
			f.split(cmd, args)
		default:
			f.Reply(resp.ErrorLine("%s", err))
		}
	}
}

func (f *session) split(cmd *commands.Command, args [][]byte) {
	cut, merge := cmd.CutBySlot(args)
	var replies [][]byte
	for _, part := range cut.All() {
		replies = append(replies, f.Request(part.Slot%len(f.Masters), part.Request))
	}
	f.Reply(merge(f.User.Proto, replies))
}

// Request has a master answer.
func (f *session) Request(master int, req []byte) []byte {
	words := commandWords(f.t, req)
	f.Sent = append(f.Sent, string(rune('0'+master))+": "+strings.Join(words, " "))
	return []byte(f.Masters[master](words))
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

func (f *session) Reply(reply []byte) {
	f.answers++
	f.Answer = slices.Clone(reply)
}

func (f *session) Forward(slot int) {
	f.Forwarded = append(f.Forwarded, slot)
	f.Reply(f.Request(max(slot, 0)%len(f.Masters), f.call.Raw))
}

func (f *session) Ask(to pipe.Target, req []byte, o commands.Asking, then func([]byte) []byte) {
	master := max(targetSlot(to), 0) % len(f.Masters)
	for i := range f.Masters {
		if to == pipe.ToMaster(i) {
			master = i
		}
	}
	reply := f.Request(master, req)
	*f.call = commands.Call{} // it is over when then runs
	if answer := then(reply); answer != nil {
		f.Reply(answer)
	}
}

func (f *session) Buffer() []byte { return nil }

// Hold implements redlock.Caller: the session answers one command after the other.
func (f *session) Hold(string) {}

func (f *session) SendHome(slot int, req []byte, _ bool, then redlock.Exchange, lost redlock.Delivery) {
	f.Undelivered = lost
	f.Ask(pipe.ToSlot(slot), req, commands.Asking{}, then.Answer)
}

func (f *session) SendWhole(slot int, req []byte, resend bool, then redlock.Exchange) {
	f.SendHome(slot, req, resend, then, nil)
}

// FindKeys implements commands.Actions. The fake nodes know of no keys.
func (f *session) FindKeys(_ [][]byte, then func(keys [][]byte) []byte) {
	if answer := then(nil); answer != nil {
		f.Reply(answer)
	}
}

// targetSlot is the slot of a target, or AnySlot.
func targetSlot(to pipe.Target) int {
	for n := range slot.Count {
		if to == pipe.ToSlot(n) {
			return n
		}
	}
	return commands.AnySlot
}

func (f *session) AskAll(req []byte, o commands.Asking, merge commands.Merge) {
	if o.Own {
		f.apart++
	}
	var replies [][]byte
	for i := range f.Masters {
		replies = append(replies, f.Request(i, req))
	}
	proto := f.User.Proto
	*f.call = commands.Call{}
	if answer := merge(proto, replies); answer != nil {
		f.Reply(answer)
	}
}

func (f *session) Task(task commands.Task, _ redlock.Delivery) {
	ctx := f.Ctx
	if ctx == nil {
		ctx = context.Background()
	}
	*f.call = commands.Call{} // it is over when task runs
	answers := make(chan func() []byte, 2)
	task(ctx, func(end func() []byte) { answers <- end })
	f.Reply((<-answers)())
}

// Await implements redlock.Caller.
func (f *session) Await(start func(func([]byte)), then func([]byte) []byte, _ redlock.Delivery) {
	replies := make(chan []byte, 1)
	*f.call = commands.Call{} // it is over when then runs
	start(func(reply []byte) { replies <- reply })
	if answer := then(<-replies); answer != nil {
		f.Reply(answer)
	}
}

func (f *session) Pusher() func(func(proto int) []byte) {
	return func(message func(proto int) []byte) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.Pushed += string(message(f.User.Proto))
	}
}

func (f *session) Gone() bool { return false }
func (f *session) Close()     { f.Closed = true }

// saying is a master that always answers the same.
func saying(reply string) func([]string) string { return func([]string) string { return reply } }

// exchange sends one command and reads one reply.
func exchange(t *testing.T, conn net.Conn, words ...string) []byte {
	t.Helper()
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

func wordsOf(line string) [][]byte {
	var args [][]byte
	for _, word := range strings.Fields(line) {
		args = append(args, []byte(word))
	}
	return args
}

// miniRedis is the table of the Redis in memory: that of Redis 5.
func miniRedis(t *testing.T, verbs ...*commands.Command) *commands.Table {
	conn, err := net.Dial("tcp", miniredis.RunT(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	table, err := routes.NewTable(exchange(t, conn, "COMMAND"), verbs, routes.RefusedByDefault()...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}
