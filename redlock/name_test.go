package redlock

import (
	"strings"
	"testing"

	"lockproxy/internal/slot"
)

// All keys of a lock lie in one slot, and no lock is where fences are.
func TestPlace(t *testing.T) {
	names := NewNames("lock:")
	for name, key := range map[string]string{
		"job":               "lock:{job}",
		"":                  "lock:{}",
		"{user7}:cart":      "lock:{user7}:cart",
		"cart:{user7}":      "lock:cart:{user7}",
		"{job}":             "lock:{job}",
		"{}job":             "lock:{{}job}",
		"a}b":               "lock:{a}b}",
		"a{b":               "lock:{a{b}",
		"with space\n":      "lock:{with space\n}",
		"fence:{1x}":        "lock:{fence:{1x}}",
		"fence:{user7}:gap": "lock:fence:{user7}:gap",
		"fence:job":         "lock:{fence:job}",
	} {
		p := names.Place(name)
		if p.Key != key || p.Slot != slot.Of([]byte(p.Key)) ||
			p.Slot != slot.Of([]byte("lock:fence:{"+slot.Tag(p.Slot)+"}")) {
			t.Errorf("%q is at %q in slot %d", name, p.Key, p.Slot)
		}
		if name != "" && strings.HasPrefix(name, "{") && slot.Of([]byte(name)) != p.Slot && name != "{}job" {
			t.Errorf("%q does not lie beside its data", name)
		}
	}
	for n := range slot.Count {
		fence := "fence:{" + slot.Tag(n) + "}"
		if p := names.Place(fence); p.Key == names.Prefix+fence {
			t.Fatalf("the lock %q would be where fences are", fence)
		}
	}
}

// A token cannot be guessed, and does not show in its digest. R8
func TestNewToken(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		token := NewToken()
		h := Holder{Owner: OwnerOf(token)}
		if len(token) < 26 || seen[token] || len(h.Digest()) != 8 || strings.Contains(token, h.Digest()) {
			t.Fatal(token)
		}
		seen[token] = true
	}
}

// The digest of a hold is the beginning of the SHA-256 of its token, also of one that was written as it is.
func TestDigest(t *testing.T) {
	const abc = "ba7816bf" // FIPS 180-2, B.1
	for _, owner := range []string{OwnerOf("abc"), "abc"} {
		h := Holder{Owner: owner}
		if h.Digest() != abc {
			t.Errorf("%q: %s", owner, h.Digest())
		}
	}
	if owner := OwnerOf("abc"); owner != "#ba7816bf8f01cfea414140de5dae2223" || len(owner) != OwnerBytes {
		t.Error(owner)
	}
}

// The names of locks are found from their keys; keys that are none are left out.
func TestNameOf(t *testing.T) {
	names := NewNames("l*:")
	for _, name := range []string{"job", "{u}:job", "a:{b}", "fence:{job}", "fence:{job}:x", "a{}b",
		"}{", "{", ""} {
		got, ok := names.LockOf(names.Place(name).Key)
		if name == "" || strings.HasPrefix(name, "{") && name != "{u}:job" || name == "}{" || name == "a{}b" {
			if ok && names.Place(got).Key != names.Place(name).Key {
				t.Errorf("%q is listed as %q, which is another lock", name, got)
			}
			continue
		}
		if !ok || got != name {
			t.Errorf("%q is listed as %q, %v", name, got, ok)
		}
	}
	for _, key := range []string{"l*:fence:{job}", "l*:job", "lx:{job}", "job", "l*:"} {
		if name, ok := names.LockOf(key); ok {
			t.Errorf("the key %s is the lock %q", key, name)
		}
	}
}

// A token as long as a UUID costs no allocation on its way to Redis.
func TestOwnersAllocateNothing(t *testing.T) {
	token, room := "0d1f9c0e-6f1e-4a55-9f0c-0d6c1b7f1a2b", make([]byte, 0, OwnerBytes)
	if n := testing.AllocsPerRun(100, func() { AppendOwner(room, token) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
