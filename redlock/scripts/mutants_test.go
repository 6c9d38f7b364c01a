//go:build !race && !quick

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
	often := 1
	if testing.Short() {
		often = 5 // rapid does a fifth of what it is told then
	}
	for name, value := range map[string]string{
		"shrinktime": "0s", "nofailfile": "true", "checks": fmt.Sprint(300 * often),
		"steps": fmt.Sprint(60 * often),
	} {
		f := flag.Lookup("rapid." + name)
		before := f.Value.String()
		t.Cleanup(func() { f.Value.Set(before) })
		f.Value.Set(value)
	}
	for _, m := range []mutant{
		{"one permit more",
			"return lock.permits - lock.readers, ends",
			"return lock.permits - lock.readers + 1, ends"},
		{"permits of leases that are over", "if ends <= lock.now then", "if false then"},
		{"newcomers first", "or not lock.place and lock.waiters < free", "or not lock.place"},
		{"waiters in any order", "local offered = lock.place and lock.place < lock.offered",
			"local offered = lock.place"},
		{"a permit that is lost when it is released",
			"local function reader_left(lock, expiry)\nlock.readers = lock.readers - 1\n",
			"local function reader_left(lock, expiry)\n"},
		{"any number of permits", "if version ~= form then", "if false then"},
		{"another use in spite of holders",
			"local used = writing or read_until(lock)", "local used = writing"},
		{"another use in spite of waiters", "used = place\n", ""},
		{"offers to more than there are permits",
			"lock.permits and lock.permits - lock.readers or 100", "100"},
		{"a permit that does not rest", "if least <= lock.now then return end",
			"if lock.permits or least <= lock.now then return end"},
		{"permits that rest as one", "lock.permits and 'r:-' .. fence or 'r:-'", "'r:-'"},
		{"a permit that rests and is not counted",
			"listed = {enlist(lock, resting)}\nlock.readers = lock.readers + 1\n",
			"listed = {enlist(lock, resting)}\n"},
		{"a permit that rests until another one ends", "if ends and ends > least then", "if false then"},
	} {
		m.isCaught(t, rapid.IntRange(1, 2))
	}
	for _, m := range []mutant{
		{"BREAK ends what was granted later", "return meant(id, fence, hold, at)\n", "return true\n"},
		{"BREAK leaves a reader", "if fields[i] ~= but and ends(hold) then",
			"if i > 1 and fields[i] ~= but and ends(hold) then"},
		{"BREAK ends the hold that it raises", "if fields[i] ~= but and ends(hold) then",
			"if ends(hold) then"},
		{"BREAK ends others' holds, though its token has the lock",
			"local writes = writing and owner == token",
			"local writes = writing and owner == token and not fence_name"},
		{"BREAK waits for its turn", "if fence_name then\nlock.offered, lock.offer_end = 0, 0",
			"if false then\nlock.offered, lock.offer_end = 0, 0"},
		{"BREAK does not tell what has ended", "broke = ended and 1 or nil", "broke = nil"},
	} {
		m.isCaught(t, anyPermits)
	}
}

// mutant is the change of some code of the scripts.
type mutant struct{ name, code, mutant string }

// isCaught fails if the model agrees with the mutant, of semaphores with that many permits.
func (m mutant) isCaught(t *testing.T, permits *rapid.Generator[int]) {
	t.Run(m.name, func(t *testing.T) {
		applied := false
		v := &verdict{TB: t}
		for round := 0; round < 100 && v.against == ""; round++ {
			testModel(v, permits, func(s scripts.Script) scripts.Script {
				source := strings.ReplaceAll(s.Source, m.code, m.mutant)
				if source != s.Source {
					applied = true
					sum := sha1.Sum([]byte(source))
					s.Source, s.SHA = source, hex.EncodeToString(sum[:])
				}
				return s
			})
		}
		if !applied || v.against == "" {
			t.Fatalf("not caught; there is such code: %v", applied)
		}
		said, _, _ := strings.Cut(v.against, "To reproduce")
		t.Logf("caught: %.300s", said)
	})
}
