package connection

import (
	"bytes"
	"net"
	"slices"
	"strings"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// filter is the arguments of CLIENT KILL and CLIENT LIST: it selects the clients that meet all conditions. It
// is made on the loop of the command and then read by visits on all loops at the same time, so nothing
// changes it after parseFilters. The zero value selects all clients.
type filter struct {
	conditions map[string]condition // by the name of their argument, such as "NOT-ADDR": the last one counts
	ids        []int64              // those that ID names, in order; nil: there is no ID
	notIDs     []int64              // those that NOT-ID names, in order
	users      []string             // that are named
	skip       int64                // client that is not selected; 0: none
}

// condition says whether a client meets it. It runs on the loop of the client that it looks at. now is one
// time for all of them.
type condition func(p *commands.Peer, now time.Time) bool

// selectsPeer says whether the filter selects a client that its ids do not rule out. Those of f.ids are left
// to Clients.Each, which visits no others.
func (f *filter) selectsPeer(p *commands.Peer, now time.Time) bool {
	if _, ruledOut := slices.BinarySearch(f.notIDs, p.ID); ruledOut || p.ID == f.skip {
		return false
	}
	for _, fits := range f.conditions {
		if !fits(p, now) {
			return false
		}
	}
	return true
}

// newCondition reads the value of an argument. name is for errors. The name has its NOT- if it was given with
// that: newCondition does not turn the condition round, setFilter does. value is valid only until
// newCondition returns.
type newCondition func(name string, value []byte) (fits condition, refusal []byte)

// dialect says what the filters of an upstream are like. An upstream refuses what its release does not have,
// and so does the proxy: a script that meets several servers can rely on the error. The zero value is that of
// Redis, and of Valkey 8.0.
type dialect struct {
	ids bool // ID takes several values, as at Valkey since 8.1
	all bool // valkeyFilters are there too, and names have opposites, such as NOT-ADDR
}

// redisFilters are the filters of CLIENT KILL of Redis besides ID and SKIPME, by name in capitals; MAXAGE
// came with 7.4.
var redisFilters = map[string]newCondition{
	"ADDR":   equal(func(p *commands.Peer) string { return p.Addr }),
	"LADDR":  equal(func(p *commands.Peer) string { return p.LocalAddr }),
	"USER":   equal(func(p *commands.Peer) string { return p.UserName() }),
	"TYPE":   ofType,
	"MAXAGE": atLeast(func(p *commands.Peer, now time.Time) time.Duration { return now.Sub(p.Created) }),
}

// valkeyFilters are the additional filters of CLIENT KILL and CLIENT LIST of Valkey 9.
var valkeyFilters = map[string]newCondition{
	"NAME":     equal(func(p *commands.Peer) string { return p.Name }),
	"LIB-NAME": equal(func(p *commands.Peer) string { return p.LibName }),
	"LIB-VER":  equal(func(p *commands.Peer) string { return p.LibVersion }),
	"IP":       equal(hostOf),
	"IDLE":     atLeast(func(p *commands.Peer, _ time.Time) time.Duration { return p.Idle }),
	"DB":       inDatabase,
	"CAPA":     withLetters("capa", "r", capabilities),
	"FLAGS": withLetters("flags", knownFlags,
		func(p *commands.Peer) string { return string(appendFlags(p, nil)) }),
}

// dialectOf is the dialect of the client's upstream.
func dialectOf(c *commands.Call) dialect {
	upstream := c.Server.Upstream()
	return dialect{ids: upstream.IsValkey(8, 1), all: upstream.IsValkey(9, 0)}
}

// equal selects clients by the value of a field. The comparison is exact, as in Redis: cases count, and there
// are no patterns.
func equal(field func(p *commands.Peer) string) newCondition {
	return func(_ string, value []byte) (condition, []byte) {
		want := string(value)
		return func(p *commands.Peer, _ time.Time) bool { return field(p) == want }, nil
	}
}

// hostOf is the client's address without its port. Of a unix socket, whose address is a path and ":0", it is
// the path.
func hostOf(p *commands.Peer) string {
	host, _, err := net.SplitHostPort(p.Addr)
	if err != nil {
		return p.Addr
	}
	return host
}

// atLeast selects clients for which a time is so many seconds or longer. field returns that time for a
// client. Errors name the argument in lower case, as servers do.
func atLeast(field func(p *commands.Peer, now time.Time) time.Duration) newCondition {
	return func(name string, value []byte) (condition, []byte) {
		name = strings.ToLower(name)
		n, ok := resp.Integer(value)
		switch {
		case !ok:
			return nil, resp.ErrorLine("ERR %s is not an integer or out of range", name)
		case n < 1:
			return nil, resp.ErrorLine("ERR %s should be greater than 0", name)
		}
		// no client lives that long
		least := time.Duration(min(n, maxSeconds)) * time.Second
		return func(p *commands.Peer, now time.Time) bool { return field(p, now) >= least }, nil
	}
}

// maxSeconds is how many fit into a time.Duration.
const maxSeconds = int64(1<<63-1) / int64(time.Second)

// peerTypes are the words behind TYPE. Of masters and replicas the proxy has none.
var peerTypes = []string{"NORMAL", "PUBSUB", "MASTER", "REPLICA", "SLAVE"}

// ofType selects clients by what they do. A client in MONITOR is a normal one, also if it listens.
func ofType(_ string, value []byte) (condition, []byte) {
	i := slices.IndexFunc(peerTypes, func(word string) bool { return resp.IsWord(value, word) })
	if i < 0 {
		return nil, resp.ErrorLine("ERR Unknown client type '%s'", value)
	}
	return func(p *commands.Peer, _ time.Time) bool {
		kind := "NORMAL"
		if p.Subscribed() && !p.Monitoring {
			kind = "PUBSUB"
		}
		return kind == peerTypes[i]
	}, nil
}

// knownFlags are the letters that flags of CLIENT LIST may have at Valkey. Some of them no client of the
// proxy ever has, so they select nobody, but are no error.
const knownFlags = "OSMPxbtRBdcuAUreTIiEN"

// withLetters selects the clients that have each of the letters. Errors call them what, and known are those
// that are no error.
func withLetters(what, known string, has func(p *commands.Peer) string) newCondition {
	return func(name string, value []byte) (condition, []byte) {
		if len(bytes.Trim(value, known)) > 0 {
			filter := "provided"
			if strings.HasPrefix(name, opposite) {
				filter = name
			}
			return nil, resp.ErrorLine("ERR Unknown %s found in the %s filter: %s", what, filter, value)
		}
		want := letters(value)
		return func(p *commands.Peer, _ time.Time) bool {
			have := has(p)
			return !slices.ContainsFunc(want, func(b byte) bool { return strings.IndexByte(have, b) < 0 })
		}, nil
	}
}

// letters are those of value, each once: otherwise a long value would cost its length for every client.
func letters(value []byte) []byte { return slices.Compact(slices.Sorted(slices.Values(value))) }

func inDatabase(name string, value []byte) (condition, []byte) {
	n, ok := resp.Integer(value)
	if !ok || n < 0 {
		return nil, resp.ErrorLine("ERR %s is not an integer or out of range", name)
	}
	return func(p *commands.Peer, _ time.Time) bool { return int64(p.DB) == n }, nil
}

// opposite is the beginning of the name of a condition that must not hold.
const opposite = "NOT-"

// parseFilters reads names and their values. d is the dialect of the upstream, and self the id of the client
// that asks, for SKIPME. refusal is the reply to the first argument that is wrong; then f is of no use.
func (f *filter) parseFilters(d dialect, args [][]byte, self int64) (refusal []byte) {
	for len(args) > 0 && refusal == nil {
		// A longer word is no name, and is not copied whole.
		name := strings.ToUpper(string(args[0][:min(len(args[0]), longestName+1)]))
		args = args[1:]
		if len(args) == 0 {
			return resp.ErrSyntax
		}
		if d.ids && name == "ID" || d.all && name == "NOT-ID" {
			args, refusal = f.setIDs(name, args)
			continue
		}
		refusal = f.setFilter(d, name, args[0], self)
		args = args[1:]
	}
	for _, ids := range []*[]int64{&f.ids, &f.notIDs} { // at the end, because they may be named one by one
		slices.Sort(*ids)
		*ids = slices.Compact(*ids)
	}
	return refusal
}

// longestName is in bytes. One more is looked at, so that a longer word does not end up as a name.
const longestName = len("NOT-LIB-NAME")

// setFilter takes one name in capitals with its value. Where ID takes one number only, the last one counts,
// as in Redis.
func (f *filter) setFilter(d dialect, name string, value []byte, self int64) (refusal []byte) {
	switch {
	case name == "ID":
		n, ok := resp.Integer(value)
		if !ok || n < 1 {
			return errClientID
		}
		f.ids = []int64{n}
		return nil
	case name == "SKIPME" && resp.IsWord(value, "YES"):
		f.skip = self
		return nil
	case name == "SKIPME" && resp.IsWord(value, "NO"):
		f.skip = 0
		return nil
	}
	base, not := strings.CutPrefix(name, opposite)
	read := redisFilters[base]
	if read == nil && d.all {
		read = valkeyFilters[base]
	}
	// MAXAGE and IDLE have no opposites at Valkey either.
	if read == nil || not && (!d.all || base == "MAXAGE" || base == "IDLE") {
		return resp.ErrSyntax
	}
	fits, refusal := read(name, value)
	if refusal != nil {
		return refusal
	}
	// checkUsers asks the upstream about these: only it knows its users.
	if base == "USER" {
		f.users = append(f.users, string(value))
	}
	f.addCondition(name, func(p *commands.Peer, now time.Time) bool { return fits(p, now) != not })
	return nil
}

// addCondition makes fits the condition of that name, in the place of an earlier one.
func (f *filter) addCondition(name string, fits condition) {
	if f.conditions == nil {
		f.conditions = map[string]condition{}
	}
	f.conditions[name] = fits
}

var errClientID = resp.ErrorLine("ERR client-id should be greater than 0")

// setIDs adds the numbers behind ID or NOT-ID, and returns what comes behind them.
func (f *filter) setIDs(name string, args [][]byte) (rest [][]byte, refusal []byte) {
	ids := &f.ids
	if name != "ID" {
		ids = &f.notIDs
	}
	// ID without a number selects nobody, while nil selects all.
	if *ids == nil {
		*ids = []int64{}
	}
	for ; len(args) > 0; args = args[1:] {
		n, ok := resp.Integer(args[0])
		if !ok {
			break
		}
		if n < 1 {
			return nil, errClientID
		}
		*ids = append(*ids, n)
	}
	return args, nil
}
