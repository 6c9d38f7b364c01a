package commands

import (
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/tidwall/redcon"

	"lockproxy/internal/resp"
)

// Tracking is what CLIENT TRACKING has set for a client. The zero value: nothing is tracked.
type Tracking struct {
	On       bool
	BCast    bool
	OptIn    bool
	OptOut   bool
	NoLoop   bool
	Caching  bool     // CLIENT CACHING was given for the command that comes next
	Broken   bool     // an invalidation could not be told, for the client of Redirect is gone
	Redirect int64    // id of the client that is told instead; 0: none
	Prefixes []string // of BCast, sorted; "" is one
	Size     int      // bytes that Prefixes take up
}

// Tracker is what CLIENT TRACKING may ask of the session.
type Tracker interface {
	// Track has the upstream track what the client reads, or what is written, as next says, and answers with
	// OK, or with an error and what was before. prefixes are those of next that are new.
	Track(next Tracking, prefixes []string)
	// Untrack ends it. It does not answer.
	Untrack()
}

// Flags are those of CLIENT LIST.
func (t *Tracking) Flags() (flags string) {
	if t.On {
		flags = "t"
	}
	if t.Broken {
		flags += "R"
	}
	if t.BCast {
		flags += "B"
	}
	return flags
}

// Redir is the number that CLIENT GETREDIR gives: 0 without redirection, -1 without tracking.
func (t *Tracking) Redir() int64 {
	if !t.On {
		return -1
	}
	return t.Redirect
}

// clientTracking is CLIENT TRACKING ON | OFF [REDIRECT id] [PREFIX prefix]... [BCAST] [OPTIN] [OPTOUT] [NOLOOP].
func clientTracking(c *Call) {
	var next Tracking
	var prefixes []string
	for i := 3; i < len(c.Args); i++ {
		option, more := c.Args[i], i+1 < len(c.Args)
		switch {
		case resp.IsWord(option, "REDIRECT") && more:
			i++
			if next.Redirect != 0 {
				c.Reply(resp.ErrorLine("ERR A client can only redirect to a single other client"))
				return
			}
			id, err := strconv.ParseInt(string(c.Args[i]), 10, 64)
			if err != nil {
				c.Reply(resp.ErrInteger)
				return
			}
			if !c.Clients().Connected(id) {
				c.Reply(resp.ErrorLine("ERR The client ID you want redirect to does not exist"))
				return
			}
			next.Redirect = id
		case resp.IsWord(option, "PREFIX") && more:
			i++
			prefixes = append(prefixes, string(c.Args[i]))
		case resp.IsWord(option, "BCAST"):
			next.BCast = true
		case resp.IsWord(option, "OPTIN"):
			next.OptIn = true
		case resp.IsWord(option, "OPTOUT"):
			next.OptOut = true
		case resp.IsWord(option, "NOLOOP"):
			next.NoLoop = true
		default:
			c.Reply(resp.ErrSyntax)
			return
		}
	}
	switch {
	case resp.IsWord(c.Args[2], "ON"):
		c.trackingOn(next, prefixes)
	case resp.IsWord(c.Args[2], "OFF"):
		c.Tracker().Untrack()
		c.Reply(resp.OK)
	default:
		c.Reply(resp.ErrSyntax)
	}
}

func (c *Call) trackingOn(next Tracking, prefixes []string) {
	now := &c.Client.Tracking
	if refusal := now.refuses(&next, prefixes); refusal != "" {
		c.Reply(resp.ErrorLine("ERR %s", refusal))
		return
	}
	next.On, next.Caching = true, now.Caching
	if next.BCast && len(prefixes) == 0 && !slices.Contains(now.Prefixes, "") {
		prefixes = []string{""}
	}
	next.Prefixes = append(slices.Clone(now.Prefixes), prefixes...)
	slices.Sort(next.Prefixes)
	next.Size = 0
	for _, prefix := range next.Prefixes {
		next.Size += len(prefix) + int(unsafe.Sizeof(prefix))
	}
	c.Tracker().Track(next, prefixes)
}

// refuses says why next cannot follow upon t, in Redis's words; "": it can.
func (t *Tracking) refuses(next *Tracking, prefixes []string) string {
	switch {
	case len(prefixes) > 0 && !next.BCast:
		return "PREFIX option requires BCAST mode to be enabled"
	case t.On && t.BCast != next.BCast:
		return "You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."
	case next.BCast && (next.OptIn || next.OptOut):
		return "OPTIN and OPTOUT are not compatible with BCAST"
	case next.OptIn && next.OptOut:
		return "You can't specify both OPTIN mode and OPTOUT mode"
	case next.OptIn && t.OptOut, next.OptOut && t.OptIn:
		return "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode."
	}
	for i, prefix := range prefixes {
		if old, ok := t.overlapping(prefix); ok {
			return "Prefix '" + prefix + "' overlaps with an existing prefix '" + old + "'. Prefixes for a single client must not overlap."
		}
		for _, other := range prefixes[i+1:] {
			if overlap(prefix, other) {
				return "Prefix '" + prefix + "' overlaps with another provided prefix '" + other + "'. Prefixes for a single client must not overlap."
			}
		}
	}
	return ""
}

// overlapping is the first of t.Prefixes, which are sorted, that overlaps with prefix. None of them but "" overlaps
// with another, so it stands beside the place of prefix among them.
func (t *Tracking) overlapping(prefix string) (old string, ok bool) {
	at, _ := slices.BinarySearch(t.Prefixes, prefix)
	for _, i := range []int{0, at - 1, at} {
		if i >= 0 && i < len(t.Prefixes) && overlap(prefix, t.Prefixes[i]) {
			return t.Prefixes[i], true
		}
	}
	return "", false
}

// overlap says that there are keys which begin with both.
func overlap(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// Requests are the commands that put a connection to a node into this state, and prefixes those that the
// connection is to be told of besides what it is already. sink is the node's id of the connection that it tells.
func (t *Tracking) Requests(prefixes []string, sink int64) [][]byte {
	words := []string{"CLIENT", "TRACKING", "ON"}
	for _, option := range []struct {
		set  bool
		name string
	}{{t.BCast, "BCAST"}, {t.OptIn, "OPTIN"}, {t.OptOut, "OPTOUT"}, {t.NoLoop, "NOLOOP"}} {
		if option.set {
			words = append(words, option.name)
		}
	}
	if t.Redirect != 0 {
		words = append(words, "REDIRECT", strconv.FormatInt(sink, 10))
	}
	all := words
	for _, prefix := range prefixes {
		if prefix != "" {
			all = append(all, "PREFIX", prefix)
		}
	}
	reqs := [][]byte{resp.AppendCommandStrings(nil, all...)}
	if len(all) > len(words) && slices.Contains(prefixes, "") {
		reqs = append(reqs, resp.AppendCommandStrings(nil, words...)) // "" overlaps with all others
	}
	return reqs
}

// clientCaching is CLIENT CACHING YES | NO.
func clientCaching(c *Call) {
	t := &c.Client.Tracking
	yes, no := resp.IsWord(c.Args[2], "YES"), resp.IsWord(c.Args[2], "NO")
	switch {
	case !t.On:
		c.Reply(resp.ErrorLine("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"))
	case yes && !t.OptIn:
		c.Reply(resp.ErrorLine("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."))
	case no && !t.OptOut:
		c.Reply(resp.ErrorLine("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."))
	case !yes && !no:
		c.Reply(resp.ErrSyntax)
	default:
		t.Caching = true
		c.Reply(resp.OK)
	}
}

func clientGetRedir(c *Call) { c.Reply(redcon.AppendInt(nil, c.Client.Tracking.Redir())) }

func clientTrackingInfo(c *Call) {
	t, proto := &c.Client.Tracking, c.Client.Proto
	flags := []string{"off"}
	if t.On {
		flags[0] = "on"
	}
	for _, flag := range []struct {
		set  bool
		name string
	}{
		{t.BCast, "bcast"}, {t.OptIn, "optin"}, {t.OptIn && t.Caching, "caching-yes"}, {t.OptOut, "optout"},
		{t.OptOut && t.Caching, "caching-no"}, {t.NoLoop, "noloop"}, {t.Broken, "broken_redirect"},
	} {
		if flag.set {
			flags = append(flags, flag.name)
		}
	}
	out := resp.AppendMap(nil, proto, 3)
	out = resp.AppendSet(resp.AppendBulks(out, "flags"), proto, len(flags))
	out = resp.AppendBulks(resp.AppendBulks(out, flags...), "redirect")
	out = redcon.AppendInt(out, t.Redir())
	out = redcon.AppendArray(resp.AppendBulks(out, "prefixes"), len(t.Prefixes))
	c.Reply(resp.AppendBulks(out, t.Prefixes...))
}
