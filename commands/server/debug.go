package server

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/commands/merge"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// debugOf says what a subcommand of DEBUG is about; those that are not here are
// about every server.
var debugOf = map[string]func(c *commands.Call){
	"object": debugKey, "sdslen": debugKey, "listpack": debugKey, "ziplist": debugKey, "quicklist": debugKey,
	"htstats-key": debugKey, "digest-value": debugValues, "digest": debugDigest, "htstats": debugTexts,
	"populate": commands.OneNode, "protocol": anyNode, "error": anyNode, "help": anyNode,
	"structsize":      anyNode,
	"stringmatch-len": anyNode, "stringmatch-test": anyNode, "client-eviction": debugTexts,
}

// debug is DEBUG subcommand ...: as long as the upstream is one server, to it.
func debug(c *commands.Call) {
	if c.Nodes().Masters() == 1 || len(c.Args) < 2 {
		c.Forward(commands.AnySlot)
		return
	}
	if run := debugOf[strings.ToLower(string(c.Args[1]))]; run != nil {
		run(c)
		return
	}
	c.AskAll(c.Raw, commands.Asking{}, merge.First)
}

func anyNode(c *commands.Call) { c.Forward(commands.AnySlot) }

func debugKey(c *commands.Call) {
	if len(c.Args) < 3 {
		c.Forward(commands.AnySlot)
		return
	}
	c.Forward(slot.Of(c.Args[2]))
}

func debugTexts(c *commands.Call) { c.AskAll(c.Raw, commands.Reread, merge.Texts) }

// debugValues is DEBUG DIGEST-VALUE key ...: each key is asked for at its own node.
func debugValues(c *commands.Call) {
	values := commands.Command{Name: "debug", Step: 1, FirstKey: 2}
	parts, merge := values.SplitBySlot(c.Args)
	if parts == nil {
		c.Forward(commands.AnySlot)
		return
	}
	c.AskParts(parts, commands.Reread, merge)
}

func debugDigest(c *commands.Call) {
	if len(c.Args) != 2 {
		c.Forward(commands.AnySlot)
		return
	}
	c.AskAll(c.Raw, commands.Reread, mergeDigest)
}

// mergeDigest merges the digests of the data of several masters into the digest of a server that has all of
// it. A digest is the exclusive or of those of all keys and, for each database that is not empty, a constant
// (debug.c, computeDatasetDigest).
func mergeDigest(_ int, replies [][]byte) []byte {
	if err := merge.FirstError(replies); err != nil {
		return err
	}
	var digest [sha1.Size]byte
	filled := 0
	for _, reply := range replies {
		v, _, err := resp.Parse(reply)
		part, failed := hex.DecodeString(v.Text())
		if err != nil || failed != nil || len(part) != len(digest) {
			return resp.ErrUnexpected
		}
		if slices.ContainsFunc(part, func(b byte) bool { return b != 0 }) {
			filled++
		}
		xor(&digest, part)
	}
	if filled > 0 && filled%2 == 0 {
		inner := sha1.Sum(make([]byte, 4)) // database 0
		number := sha1.Sum(inner[:])
		xor(&digest, number[:])
	}
	return redcon.AppendString(nil, hex.EncodeToString(digest[:]))
}

func xor(dst *[sha1.Size]byte, b []byte) {
	for i := range dst {
		dst[i] ^= b[i]
	}
}
