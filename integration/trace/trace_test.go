package trace

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// play runs one round over a fake in fake time, in which clients are killed now and then, by themselves or by
// the proxy.
func play(t *testing.T, m mutant, seed uint64) (h *History) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		r := Round{
			Seed: seed, Keys: []string{"a",
				"b"}, Clients: 6, Proxies: 2, For: 4 * time.Second, Think: 25 * time.Millisecond,
			Dial:     newFake(m, seed).dial,
			Upgrades: seed%12 < 2, Keepalive: seed%4 > 1, Guards: seed%3 > 0,
			Notify: seed%5 > 1, Linger: seed%7 > 2, AtLeast: seed%11 > 5, Breaks: seed%5%2 > 0,
			Sets: seed%4 < 3, Looks: seed%3 != 1,
			Slacks: Slacks{Standing: 50 * time.Millisecond,
				Wakeup: 100 * time.Millisecond, Late: 50 * time.Millisecond},
		}
		if seed%2 == 1 {
			r.Faults = func(ctx context.Context, random *rand.Rand, r *Running) {
				for {
					select {
					case <-time.After(time.Duration(random.Int64N(int64(200 * time.Millisecond)))):
					case <-ctx.Done():
						return
					}
					now := r.Now()
					if seed%8 > 3 {
						r.Cut(random.IntN(6))
					} else {
						r.Kill(random.IntN(6))
					}
					r.Note(Event{Name: "client killed", Start: now, End: r.Now(), Clean: true})
				}
			}
		}
		if seed%3 < 2 {
			r.Semaphores = map[string]int64{"b": 1 + int64(seed%4)}
		}
		h = r.Run()
		time.Sleep(time.Minute) // in which the fake frees what was kept alive
	})
	return h
}

// A fake that keeps its promises is never found guilty.
func TestSound(t *testing.T) {
	grants, seeds := 0, 60
	if testing.Short() {
		seeds = 20
	}
	for seed := range uint64(seeds) {
		h := play(t, sound, seed)
		v := Judge(h)
		grants += v.Grants
		if len(v.Violations) > 0 {
			t.Errorf("seed %d: %v", seed, v.Violations)
		}
	}
	if grants < seeds*30 {
		t.Errorf("only %d grants", grants)
	}
}

// Each mutant is found guilty of what is wrong with it within a few histories.
func TestMutants(t *testing.T) {
	for m, rule := range map[mutant]string{
		ownerless:        "linearizable",
		standingFence:    "fence",
		overwrittenLease: "linearizable",
		wrongWaiter:      "first come first served",
		lostWakeup:       "lost wake-up",
		uncounted:        "linearizable",
		shortLease:       "linearizable",
		fenceIgnored:     "linearizable",
		shorteningRenew:  "linearizable",
		noExpiry:         "linearizable",
		falseNull:        "linearizable",
		hastyWait:        "on time",
		lateWait:         "on time",
		sharedWriter:     "linearizable",
		undoneRetry:      "linearizable",
		forgottenKeeper:  "linearizable",
		greedyKeeper:     "linearizable",
		immortalKeeper:   "lost wake-up",
		lateRelease:      "linearizable",
		lateDowngrade:    "linearizable",
		countedTwice:     "linearizable",
		longTTL:          "linearizable",
		hastyKill:        "linearizable",
		heedlessGuard:    "linearizable",
		fencelessGuard:   "linearizable",
		partedGuard:      "linearizable",
		falseNotHeld:     "linearizable",
		takenBack:        "linearizable",
		nullRelease:      "linearizable",
		hiddenHolder:     "linearizable",
		formerHolder:     "linearizable",
		secondMessage:    "one message",
		noRest:           "linearizable",
		shortRest:        "linearizable",
		endlessRest:      "lost wake-up",
		restOfItsOwner:   "linearizable",
		shortenedRest:    "linearizable",
		sharedRest:       "linearizable",
		restlessKeeper:   "linearizable",
		onePermitMore:    "linearizable",
		onePermitLess:    "linearizable",
		stolenPermit:     "linearizable",
		softBreak:        "linearizable",
		lateBreak:        "linearizable",
		idleBreak:        "linearizable",
		blindBreak:       "linearizable",
		setOfSome:        "linearizable",
		setLeft:          "linearizable",
		setSharesFence:   "linearizable",
		setHalfFreed:     "linearizable",
		setHalfRenewed:   "linearizable",
		lostPermit:       "linearizable",
		wrongPermit:      "first come first served",
		permitFence:      "fence",
		lockOfPermits:    "linearizable",
		nullOfPermits:    "linearizable",
		heedlessForm:     "linearizable",
		heedlessPermits:  "linearizable",
		noLinger:         "linearizable",
		shortLinger:      "linearizable",
		endlessLinger:    "lost wake-up",
		quitLingers:      "lost wake-up",
		lingerAgain:      "linearizable",
		lingeringLease:   "linearizable",
	} {
		if testing.Short() && len(m)%4 != 0 {
			continue // without -short each has its turn
		}
		t.Run(string(m), func(t *testing.T) {
			for seed := range uint64(400) {
				for _, v := range Judge(play(t, m, seed)).Violations {
					if v.Rule == rule {
						t.Logf("caught by seed %d: %s", seed, v)
						return
					}
				}
			}
			t.Error("never caught")
		})
	}
}

// A history that was kept is judged again as it was.
func TestSave(t *testing.T) {
	h := play(t, sharedWriter, 0)
	v := Judge(h)
	path, err := h.Save(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	saved, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	if again := Judge(saved); len(v.Violations) == 0 || !slices.Equal(again.Violations, v.Violations) {
		t.Errorf("at first %v, again %v", v.Violations, again.Violations)
	}
}

// load reads a history that Save wrote.
func load(path string) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	h := &History{}
	return h, json.NewDecoder(z).Decode(h)
}

var histories = flag.String("histories", "", "a directory of histories that are judged again")

// brokenConn breaks.
type brokenConn struct{ err error }

func (c brokenConn) Do(time.Duration, ...string) (Reply, error) { return Reply{}, c.err }
func (brokenConn) Close()                                       {}
func (brokenConn) Cut()                                         {}

// A client whose connection for messages breaks closes the other one itself, also where the proxy was about
// to: what it kept alive may be let go.
func TestWhoClosed(t *testing.T) {
	for err, want := range map[error]Verb{
		io.EOF: Cut, fmt.Errorf("%w: %w", ErrMessages, io.EOF): Drop,
	} {
		r := &Running{Round: Round{Keys: []string{"k"}, For: time.Minute}, start: time.Now()}
		c := newClient(r, 0)
		l := &link{Conn: brokenConn{err}}
		l.ended.Store(errCut)
		c.link.Store(l)
		c.recent = []Op{{Verb: Write, Key: "k", Token: "a", Keep: true}}
		c.call(Op{Verb: Check, Key: "k", Token: "a"})
		if got := r.ops[len(r.ops)-1].Verb; got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

// Histories that were kept are judged again.
func TestJudgeAgain(t *testing.T) {
	all, _ := filepath.Glob(filepath.Join(*histories, "history-*.json.gz"))
	sum := Sum{}
	for _, path := range all {
		h, err := load(path)
		if err != nil {
			t.Fatal(err)
		}
		v := Judge(h)
		sum.Add(v.Sum)
		for _, violation := range v.Violations {
			t.Errorf("%s: %s", path, violation)
		}
	}
	t.Logf("%+v", sum)
}
