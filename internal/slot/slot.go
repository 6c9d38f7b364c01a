// Package slot computes the hash slot of a key, as Redis Cluster does (Redis Cluster specification, hash
// tags):
//
//	{user}:1 --> user --> CRC16 --> 0 ... Count-1
//
// Keys with the same tag, the part in braces, have the same slot, so one node has them all and one command or
// script may name them together. Tag goes the other way: it gives a key of a wanted slot.
//
// Begin reading at Of, which every command with keys goes through.
package slot

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
)

// Count is how many slots there are (Redis Cluster specification).
const Count = 16384

// Of is the slot of key: CRC16 (XMODEM) of the key, or of its hash tag when it
// has one that is not empty, modulo 16384.
func Of(key []byte) int {
	// The first brace that opens and the first one behind it that closes count, whatever else follows; "{}"
	// is no tag.
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if size := bytes.IndexByte(key[open+1:], '}'); size > 0 {
			key = key[open+1 : open+1+size]
		}
	}
	return int(crc16(key)) & (Count - 1)
}

// crc16 is CRC-16/XMODEM. It takes eight bytes at a time: tables[k] holds what a
// byte with k bytes behind it contributes ("slicing by 8").
func crc16(b []byte) (crc uint16) {
	for ; len(b) >= 8; b = b[8:] {
		crc = tables[7][b[0]^byte(crc>>8)] ^ tables[6][b[1]^byte(crc)] ^
			tables[5][b[2]] ^ tables[4][b[3]] ^ tables[3][b[4]] ^
			tables[2][b[5]] ^ tables[1][b[6]] ^ tables[0][b[7]]
	}
	for _, c := range b {
		crc = crc<<8 ^ tables[0][byte(crc>>8)^c]
	}
	return crc
}

// Tag is a short string whose slot is n, the same in every process and
// release: the first in the order "0", "1", ... of base 36.
func Tag(n int) string { return strings.TrimRight(tags()[longestTag*n:longestTag*(n+1)], " ") }

// longestTag is the length of the longest tag.
const longestTag = 4

// tags are all tags, each with blanks behind it: the processor's caches keep most of so little memory.
var tags = sync.OnceValue(func() string {
	all := bytes.Repeat([]byte{' '}, longestTag*Count)
	for i, found := uint64(0), 0; found < Count; i++ {
		tag := strconv.AppendUint(nil, i, 36)
		if place := all[longestTag*Of(tag):]; place[0] == ' ' {
			copy(place, tag)
			found++
		}
	}
	return string(all)
})

// tables[0] is the CRC16 of each byte, polynomial 0x1021.
var tables = func() (t [8][256]uint16) {
	for i := range t[0] {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[0][i] = crc
	}
	for k := 1; k < len(t); k++ {
		for i, crc := range t[k-1] {
			t[k][i] = crc<<8 ^ t[0][crc>>8]
		}
	}
	return t
}()
