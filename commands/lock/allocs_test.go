package lock

import (
	"testing"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/index"
	"lockproxy/redlock/locks"
)

// shardedLocks is all that a Locker needs to know of its upstream to make requests.
type shardedLocks struct{ redlock.Upstream }

func (shardedLocks) Sharded() bool        { return true }
func (shardedLocks) Parted(int) time.Time { return time.Time{} }
func (shardedLocks) DeleteIf() string     { return "" }
func (shardedLocks) Evicting() bool       { return false }
func (shardedLocks) Evicts(int) error     { return nil }

// granting are Actions whose node grants, and frees, whatever it is asked.
type granting struct {
	commands.Actions
	room []byte
}

func (g *granting) Buffer() []byte { return g.room }

func (*granting) Hold(string) {}

func (*granting) SendHome(_ int, _ []byte, _ bool, then redlock.Exchange, to redlock.Delivery) {
	if then.Answer(resp.One); to != nil {
		to.Arrived()
	}
}

// The path of a LOCK that is granted at once, and of an UNLOCK, allocates no more than it has to: the name
// with the token and the id.
func TestLockVerbsAllocateLittle(t *testing.T) {
	x := index.New(nil, index.Options{})
	l := locks.New(shardedLocks{}, locks.Options{Index: x})
	verbs := map[string]*commands.Command{}
	for _, c := range Verbs(Lockers{Plain: l, Ledger: NewLedger(x, []string{"other:"}, nil),
		Busiest: NewBusiest(100)}) {
		verbs[c.Name] = c
	}
	room := &granting{room: make([]byte, 0, 1024)}
	call := func(verb string, words ...string) *commands.Call {
		c := &commands.Call{Command: verbs[verb], Client: &commands.Client{Proto: 2}, Actions: room}
		for _, word := range append([]string{verb}, words...) {
			c.Args = append(c.Args, []byte(word))
		}
		return c
	}
	lock := call("lock", "job:of:42", "TOKEN", "token-of-a-client", "PX", "5000")
	unlock := call("unlock", "job:of:42", "token-of-a-client")
	for _, test := range []struct {
		name string
		call *commands.Call
	}{{"lock", lock}, {"unlock", unlock}} {
		if n := testing.AllocsPerRun(2000, func() { test.call.Command.Run(test.call) }); n > 1 {
			t.Errorf("%s: %v allocations", test.name, n)
		}
	}
}
