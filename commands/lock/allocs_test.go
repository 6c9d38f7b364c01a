package lock

import (
	"testing"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/index"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/single"
)

// shardedLocks is all that a Locker needs to know of its upstream to make requests.
type shardedLocks struct{ single.Upstream }

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

func (*granting) SendHome(_ int, _ []byte, _ bool, then redlock.Exchange, _ redlock.Delivery) {
	then.Answer(resp.One)
}

// The path of a LOCK that is granted at once, and of an UNLOCK, allocates no more than it has to.
func TestLockVerbsAllocateLittle(t *testing.T) {
	x := index.New(nil, index.Options{})
	l := locks.New(shardedLocks{}, locks.Options{Index: x})
	verbs := map[string]*commands.Command{}
	for _, c := range Verbs(Lockers{Plain: l, Ledger: NewLedger(x, []string{"other:"}, nil),
		Busiest: NewBusiest(100)}) {
		verbs[c.Name] = c
	}
	client := &commands.Client{Proto: 2}
	for _, test := range []struct {
		name string
		args []string
		most float64
	}{
		{"lock", []string{"LOCK", "job:of:42", "TOKEN", "token-of-a-client", "PX", "5000"}, 3},
		{"unlock", []string{"UNLOCK", "job:of:42", "token-of-a-client"}, 1},
	} {
		call := &commands.Call{
			Command: verbs[test.name], Client: client, Actions: &granting{room: make([]byte, 0, 1024)},
		}
		for _, word := range test.args {
			call.Args = append(call.Args, []byte(word))
		}
		if n := testing.AllocsPerRun(200, func() { call.Command.Run(call) }); n > test.most {
			t.Errorf("%s: %v allocations, want at most %v", test.name, n, test.most)
		}
	}
}
