package transcripts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// lockStep is one command of a client that has two connections.
type lockStep struct {
	conn int
	args []string
}

// lockSteps are n random commands for a lock, most of them over the first connection, of the tokens a and b.
func lockSteps(r *rand.Rand, n int) (steps []lockStep) {
	for range n {
		conn, token := 0, []string{"a", "a", "b"}[r.IntN(3)]
		if r.IntN(5) == 0 {
			conn = 1
		}
		verb := []string{
			"LOCK job TOKEN t PX 60000", "LOCK job TOKEN t PX 60000 REENTRANT", "RLOCK job TOKEN t PX 60000",
			"WLOCK job TOKEN t PX 60000",
			"UNLOCK job t", "UNLOCK job t", "UNLOCK job t", "RENEW job t PX 600000",
			"LOCKCTL CHECK job t", "RESET",
		}[r.IntN(10)]
		args := strings.Fields(verb)
		if i := slices.Index(args, "t"); i >= 0 {
			args[i] = token
		}
		steps = append(steps, lockStep{conn, args})
	}
	return steps
}

// answersOf sends steps for the lock name, each behind the answer of the one before it, or without waiting
// while the connection stays the same. Times are left out of the answers, and fences are numbered.
func answersOf(t *testing.T, addr, name string, steps []lockStep, wait bool) (answers []string) {
	conns := []*rig.Conn{rig.Connect(t, addr), rig.Connect(t, addr)}
	defer conns[0].Close()
	defer conns[1].Close()
	var fences []int64
	due := 0
	read := func() {
		for len(answers) < due {
			step := steps[len(answers)]
			v, err := conns[step.conn].Receive(rig.Patience)
			if err != nil {
				t.Fatalf("%s: %v", step.args, err)
			}
			answers = append(answers, lockAnswer(v, &fences))
		}
	}
	for i, step := range steps {
		if i > 0 && (wait || step.conn != steps[i-1].conn) {
			read()
		}
		args := slices.Clone(step.args)
		if at := slices.Index(args, "job"); at >= 0 {
			args[at] = name
		}
		if err := conns[step.conn].Send(args...); err != nil {
			t.Fatal(err)
		}
		due++
	}
	read()
	if !slices.IsSorted(fences) {
		t.Errorf("the fences %v do not rise", fences)
	}
	return answers
}

// lockAnswer writes the answer v out. A grant is {token, fence, ms, count}, a hold {ms, fence, count}.
func lockAnswer(v rig.Reply, fences *[]int64) string {
	n := len(v.Elems)
	if n < 3 {
		if n == 0 && v.Int() > 120_000 {
			return "renewed"
		}
		return v.String()
	}
	fence, ms := v.Elems[n-3], v.Elems[n-2]
	if n == 3 {
		fence, ms = ms, fence
	}
	i := slices.Index(*fences, fence.Int())
	if i < 0 {
		i = len(*fences)
		*fences = append(*fences, fence.Int())
	}
	return fmt.Sprintf("fence %d, renewed %v, count %s", i, ms.Int() > 120_000, v.Elems[n-1].Text)
}

// Commands for one lock that a client sends without waiting, of one token or of several, over one connection
// and now and then another, are answered as they are one after the other.
func TestPipelinedLocks(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.StartRedis(t).Addr)
	rounds := [][]lockStep{nil, nil}
	for _, line := range []string{
		"LOCK job TOKEN a", "UNLOCK job a", "LOCK job TOKEN a", "UNLOCK job a", "RENEW job a",
		"LOCKCTL CHECK job a", "RESET",
	} {
		rounds[0] = append(rounds[0], lockStep{0, strings.Fields(line)})
	}
	for i, line := range []string{
		"RLOCK job TOKEN a", "RENEW job a PX 600000", "WLOCK job TOKEN a", "LOCKCTL CHECK job a",
		"UNLOCK job a", "LOCKCTL CHECK job a",
	} {
		rounds[1] = append(rounds[1], lockStep{[]int{0, 0, 1, 0, 0, 0}[i], strings.Fields(line)})
	}
	for seed := range uint64(30) {
		rounds = append(rounds, lockSteps(rand.New(rand.NewPCG(seed, 1)), 60))
	}
	for i, steps := range rounds {
		want := answersOf(t, p.Addr, fmt.Sprintf("one by one %d", i), steps, true)
		got := answersOf(t, p.Addr, fmt.Sprintf("at once %d", i), steps, false)
		for n := range steps {
			if got[n] != want[n] {
				t.Fatalf("round %d, %v: %s, one by one %s\n%v", i, steps[n], got[n], want[n], steps[:n+1])
			}
		}
	}
}
