package resp

// Redis's own defaults. It has no setting for the number of arguments.
const (
	defaultArgs    = 1 << 20   // arguments of a command
	defaultBulk    = 512 << 20 // proto-max-bulk-len
	defaultInline  = 64 << 10  // PROTO_INLINE_MAX_SIZE
	defaultCommand = 1 << 30   // client-query-buffer-limit

	unauthenticatedArgs = 10       // before AUTH, processMultibulkBuffer in Redis's networking.c
	unauthenticatedBulk = 16 << 10 // the same place
)

// Limits bound what a client may send. Zero fields mean those of DefaultLimits.
type Limits struct {
	Args    int // arguments of a command
	Bulk    int // bytes of one argument (proto-max-bulk-len)
	Inline  int // bytes of an inline command without its line end
	Command int // bytes of a whole command with its headers (client-query-buffer-limit)

	later int // Bulk once the client is authenticated; 0: it is already
}

// DefaultLimits are those of Redis.
func DefaultLimits() Limits {
	return Limits{Args: defaultArgs, Bulk: defaultBulk, Inline: defaultInline, Command: defaultCommand}
}

// Unauthenticated returns the limits for a client that has yet to give the password: 10 arguments of 16 KiB,
// as in Redis, or l where that is lower. Whoever has not said who he is can make the proxy keep some 160 KiB,
// and not 512 MB.
func (l Limits) Unauthenticated() Limits {
	l.later = l.bulk()
	l.Args = min(l.args(), unauthenticatedArgs)
	l.Bulk = min(l.bulk(), unauthenticatedBulk)
	return l
}

func (l *Limits) args() int {
	if l.Args == 0 {
		return defaultArgs
	}
	return l.Args
}

func (l *Limits) bulk() int {
	if l.Bulk == 0 {
		return defaultBulk
	}
	return l.Bulk
}

func (l *Limits) inline() int {
	if l.Inline == 0 {
		return defaultInline
	}
	return l.Inline
}

// CommandLimit is Command, or its default.
func (l *Limits) CommandLimit() int { return l.command() }

// BulkLimit is Bulk, or its default.
func (l *Limits) BulkLimit() int { return l.bulk() }

func (l *Limits) command() int {
	if l.Command == 0 {
		return defaultCommand
	}
	return l.Command
}
