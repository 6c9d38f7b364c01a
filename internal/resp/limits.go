package resp

import "cmp"

const (
	unauthenticatedArgs = 10       // before AUTH, processMultibulkBuffer in Redis's networking.c
	unauthenticatedBulk = 16 << 10 // the same place
)

// Limits bound what a client may send. A field that is 0 allows nothing: see OrDefaults.
type Limits struct {
	Args    int // arguments of a command
	Bulk    int // bytes of one argument (proto-max-bulk-len)
	Inline  int // bytes of an inline command without its line end
	Command int // bytes of a whole command with its headers (client-query-buffer-limit)

	later int // Bulk once the client is authenticated; 0: it is already
}

// DefaultLimits are those of Redis, which has no setting for the number of arguments, nor for inline commands
// (PROTO_INLINE_MAX_SIZE).
func DefaultLimits() Limits {
	return Limits{Args: 1 << 20, Bulk: 512 << 20, Inline: 64 << 10, Command: 1 << 30}
}

// OrDefaults is l with the fields of DefaultLimits in the place of those that are zero.
func (l Limits) OrDefaults() Limits {
	d := DefaultLimits()
	return Limits{
		Args: cmp.Or(l.Args, d.Args), Bulk: cmp.Or(l.Bulk, d.Bulk),
		Inline: cmp.Or(l.Inline, d.Inline), Command: cmp.Or(l.Command, d.Command),
	}
}

// Unauthenticated returns the limits for a client that has yet to give the password: 10 arguments of 16 KiB,
// as in Redis, or l where that is lower. Whoever has not said who he is can make the proxy keep some 160 KiB,
// and not 512 MB.
func (l Limits) Unauthenticated() Limits {
	l.later = l.Bulk
	l.Args = min(l.Args, unauthenticatedArgs)
	l.Bulk = min(l.Bulk, unauthenticatedBulk)
	return l
}
