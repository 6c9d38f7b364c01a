package scripts_test

import (
	"crypto/sha1"
	"encoding/hex"
	"flag"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockproxy/redlock/scripts"
)

// verdict is a test that notes that it has failed.
type verdict struct {
	testing.TB
	against string
}

func (v *verdict) Errorf(format string, args ...any) { v.against = fmt.Sprintf(format, args...) }
func (v *verdict) Fatalf(format string, args ...any) { v.against = fmt.Sprintf(format, args...) }

// Mutants of the scripts, which give more permits than there are, or to others than those whose turn it is,
// or lose some, or let them rest wrongly, or which break other holds than LOCK with BREAK may, are caught by
// the model.
func TestModelCatchesMutants(t *testing.T) {
	steps := 60
	if testing.Short() {
		steps *= 5 // rapid does a fifth of what it is told then
	}
	for name, value := range map[string]string{
		"shrinktime": "0s", "nofailfile": "true", "checks": "", "seed": "", "steps": fmt.Sprint(steps),
	} {
		f := flag.Lookup("rapid." + name)
		before := f.Value.String()
		t.Cleanup(func() { f.Value.Set(before) })
		if value != "" {
			f.Value.Set(value)
		}
	}
	for _, m := range []mutant{
		{"one permit more",
			"return lock.permits - lock.readers,",
			"return lock.permits - lock.readers + 1,", 4294967306},
		{"permits of leases that are over", "if lock.readers_end > math.max(lock.now, own) then",
			"if lock.permits or lock.readers_end > math.max(lock.now, own) then", 4294976612},
		{"newcomers first", "or not lock.place and lock.waiters < free", "or not lock.place", 4294967306},
		{"waiters in any order", "local offered = lock.place and lock.place < lock.offered",
			"local offered = lock.place", 12884903841},
		{"a permit that is lost when it is released",
			"local function reader_left(lock, expiry)\nlock.readers = lock.readers - 1\n",
			"local function reader_left(lock, expiry)\n", 8589963753},
		{"any number of permits", "if version ~= form then", "if false then", 4294967297},
		{"another use in spite of holders",
			"local used = writing or read_until(lock)", "local used = writing", 4294967297},
		{"another use in spite of waiters", "used = place\n", "", 8589938778},
		{"offers to more than there are permits",
			"lock.permits and lock.permits - lock.readers or 100", "100", 17179869194},
		{"a permit that does not rest", "if least <= lock.now then return end",
			"if lock.permits or least <= lock.now then return end", 4294967324},
		{"permits that rest as one", "lock.permits and 'r:-' .. fence or 'r:-'", "'r:-'", 8589963753},
		{"a permit that rests and is not counted",
			"redis.call('HSET', lock.key, resting, hold, enlist(lock, resting, least))",
			"redis.call('HSET', lock.key, resting, hold)", 4294967324},
		{"a permit that ends with the last one",
			"lock.permits and lock.readers > 0 and math.min or math.max", "math.max", 8589956537},
	} {
		m.isCaught(t, rapid.IntRange(1, 2))
	}
	for _, m := range []mutant{
		{"BREAK ends what was granted later", "return meant(id, fence, hold, at)\n", "return true\n",
			4294968286},
		{"BREAK leaves a reader", "if fields[i] ~= but and ends(hold) then",
			"if i > 1 and fields[i] ~= but and ends(hold) then", 1},
		{"BREAK ends the hold that it raises", "if fields[i] ~= but and ends(hold) then",
			"if ends(hold) then", 8589940697},
		{"BREAK ends others' holds, though its token has the lock",
			"local h = ask_for_own(", "local h = breaks and {} or ask_for_own(", 4294967341},
		{"BREAK waits for its turn", "if breaks then\nlock.offered, lock.offer_end = 0, 0",
			"if false then\nlock.offered, lock.offer_end = 0, 0", 21474843620},
		{"BREAK does not tell what has ended", "broke = ended and 1 or nil", "broke = nil", 4294970299},
	} {
		m.isCaught(t, anyPermits)
	}
}

// mutant is the change of some code of the scripts, and the seed of a test of the model that shows it.
type mutant struct {
	name, code, mutant string
	seed               uint64
}

// isCaught fails if the model agrees with the mutant, of semaphores with that many permits. A change of the
// model may need another seed, which it looks for then.
func (m mutant) isCaught(t *testing.T, permits *rapid.Generator[int]) {
	t.Run(m.name, func(t *testing.T) {
		if against := m.judge(t, permits, m.seed, 1); against != "" {
			t.Logf("caught: %.300s", against)
			return
		}
		for seed := uint64(1); seed < 100; seed++ {
			if _, by, ok := strings.Cut(m.judge(t, permits, seed<<32, 300), "-rapid.seed="); ok {
				by, _, _ = strings.Cut(by, "\n")
				t.Fatalf("the seed %d does not show it, but %s does: name that here", m.seed, by)
			}
		}
		t.Fatal("the model agrees with it")
	})
}

// judge is what the model has against m in so many tests, the first of which has the seed.
func (m mutant) judge(t *testing.T, permits *rapid.Generator[int], seed uint64, tests int) string {
	if testing.Short() {
		tests *= 5 // rapid does a fifth of what it is told then
	}
	flag.Set("rapid.seed", fmt.Sprint(seed))
	flag.Set("rapid.checks", fmt.Sprint(tests))
	v, applied := &verdict{TB: t}, false
	testModel(v, permits, func(s scripts.Script) scripts.Script {
		source := strings.ReplaceAll(s.Source, m.code, m.mutant)
		if source != s.Source {
			applied = true
			sum := sha1.Sum([]byte(source))
			s.Source, s.SHA = source, hex.EncodeToString(sum[:])
		}
		return s
	})
	if !applied {
		t.Fatalf("there is no such code: %s", m.code)
	}
	return v.against
}
