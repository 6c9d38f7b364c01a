package slot

import "testing"

// The expected values are those of CLUSTER KEYSLOT of Redis 7.0.15.
func TestOf(t *testing.T) {
	for key, want := range map[string]int{
		"":                   0,
		"foo":                12182,
		"123456789":          12739,
		"{user7}:cart":       Of([]byte("user7")),
		"foo{}{bar}":         8363,
		"foo{{bar}}zap":      4015,
		"foo{bar}{zap}":      5061,
		"a{b":                Of([]byte("a{b")),
		"\x00\xff binary \r": Of([]byte("\x00\xff binary \r")),
	} {
		if got := Of([]byte(key)); got != want {
			t.Errorf("Of(%q) = %d, want %d", key, got, want)
		}
	}
}

// Eight bytes at a time give what one bit at a time does.
func TestCRC16(t *testing.T) {
	bitwise := func(b []byte) (crc uint16) {
		for _, c := range b {
			crc ^= uint16(c) << 8
			for range 8 {
				if crc&0x8000 != 0 {
					crc = crc<<1 ^ 0x1021
				} else {
					crc <<= 1
				}
			}
		}
		return crc
	}
	b := make([]byte, 100)
	for i := range b {
		b[i] = byte(i*167 + 13)
		if got, want := crc16(b[:i]), bitwise(b[:i]); got != want {
			t.Errorf("crc16 of %d bytes = %#x, want %#x", i, got, want)
		}
	}
}

func TestTagsLieInTheirSlots(t *testing.T) {
	longest := 0
	for n := range Count {
		tag := Tag(n)
		if Of([]byte(tag)) != n {
			t.Fatalf("Of(Tag(%d)) = %d", n, Of([]byte(tag)))
		}
		longest = max(longest, len(tag))
	}
	if longest > 4 {
		t.Errorf("longest tag has %d bytes", longest)
	}
}

func BenchmarkOf(b *testing.B) {
	key := []byte("key:__rand_int__")
	for b.Loop() {
		Of(key)
	}
}
