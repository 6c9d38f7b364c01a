package cluster

import (
	"fmt"
	"strconv"

	"lockproxy/internal/resp"
)

// Memory is what a server says of its memory. Of the zero value nothing is known. It is asked for because an
// evicted lock is a lock that two may hold.
type Memory struct {
	Policy string // maxmemory-policy: "allkeys-lru"
	Most   int64  // maxmemory, bytes; 0: any number
}

// MemoryQuestion is the command whose reply MemoryOf reads.
var MemoryQuestion = []any{"INFO", "memory"}

// MemoryOf reads the reply to MemoryQuestion. One that is an error, for INFO may be forbidden, tells nothing.
func MemoryOf(reply resp.Value) Memory {
	most, _ := strconv.ParseInt(Field(reply, "maxmemory"), 10, 64)
	return Memory{Policy: Field(reply, "maxmemory_policy"), Most: most}
}

// Evicts says why the server may delete locks that are held, and what helps. nil: it does not, or it is not
// known. The policies volatile-* are no better than allkeys-*, because every hold has a TTL.
func (m Memory) Evicts() error {
	if m.Most <= 0 || m.Policy == "" || m.Policy == "noeviction" {
		return nil
	}
	return Refusal(fmt.Sprintf("it evicts: with maxmemory-policy %s and maxmemory %d it may delete locks "+
		"that are held (CONFIG SET maxmemory-policy noeviction there, or lock-allow-eviction yes here)",
		m.Policy, m.Most))
}

// Limits are what the masters take of one client. 0: they did not tell.
type Limits struct {
	Bulk   int // bytes of one argument: the lowest proto-max-bulk-len
	Buffer int // bytes of unread input, so of one argument too: the lowest client-query-buffer-limit
}
