package connection

import (
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// clientTracking is CLIENT TRACKING ON | OFF [REDIRECT id] [PREFIX prefix]... [BCAST] [OPTIN] [OPTOUT]
// [NOLOOP]. The options are read to the end before ON or OFF counts, as in Redis, so a wrong one is an error
// with OFF too. The order of the checks, and their words, are those of Redis as well.
func clientTracking(c *commands.Call) []byte {
	var next commands.Tracking
	var prefixes []string
	for i := 3; i < len(c.Args); i++ {
		option, more := c.Args[i], i+1 < len(c.Args)
		switch {
		case resp.IsWord(option, "REDIRECT") && more:
			i++
			if next.Redirect != 0 {
				return resp.ErrorLine("ERR A client can only redirect to a single other client")
			}
			id, err := strconv.ParseInt(string(c.Args[i]), 10, 64)
			if err != nil {
				return resp.ErrInteger
			}
			// It may go later: then the invalidations are lost, and the client is told by Tracking.Broken.
			if !c.Clients().Connected(id) {
				return resp.ErrorLine("ERR The client ID you want redirect to does not exist")
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
			return resp.ErrSyntax
		}
	}
	switch {
	case resp.IsWord(c.Args[2], "ON"):
		return trackingOn(c, next, prefixes)
	case resp.IsWord(c.Args[2], "OFF"):
		c.Tracker().Untrack()
		return resp.OK
	default:
		return resp.ErrSyntax
	}
}

// trackingOn turns tracking on, or adds prefixes to that which is on. The new state becomes that of the
// client when the upstream has accepted it (Tracker.Track).
func trackingOn(c *commands.Call, next commands.Tracking, prefixes []string) []byte {
	now := &c.Client.Tracking
	if refusal := refuses(now, &next, prefixes); refusal != "" {
		return resp.ErrorLine("ERR %s", refusal)
	}
	next.On, next.Caching = true, now.Caching
	// Broadcasting without a prefix means all keys, which is the prefix "".
	if next.BCast && len(prefixes) == 0 && !slices.Contains(now.Prefixes, "") {
		prefixes = []string{""}
	}
	next.Prefixes = append(slices.Clone(now.Prefixes), prefixes...)
	slices.Sort(next.Prefixes)
	// the bytes of the prefixes, and the words that point to them, which slices hold
	for _, prefix := range next.Prefixes {
		next.Size += len(prefix) + int(unsafe.Sizeof(prefix))
	}
	c.Tracker().Track(next, prefixes)
	return nil
}

// refuses says why tracking cannot change from t to next, in Redis's words; "": it can.
func refuses(t *commands.Tracking, next *commands.Tracking, prefixes []string) string {
	switch {
	case len(prefixes) > 0 && !next.BCast:
		return "PREFIX option requires BCAST mode to be enabled"
	case t.On && t.BCast != next.BCast:
		return "You can't switch BCAST mode on/off before disabling tracking for this client, and then " +
			"re-enabling it with a different mode."
	case next.BCast && (next.OptIn || next.OptOut):
		return "OPTIN and OPTOUT are not compatible with BCAST"
	case next.OptIn && next.OptOut:
		return "You can't specify both OPTIN mode and OPTOUT mode"
	case next.OptIn && t.OptOut, next.OptOut && t.OptIn:
		return "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then " +
			"re-enabling it with a different mode."
	}
	for i, prefix := range prefixes {
		if old, ok := overlapping(t, prefix); ok {
			return "Prefix '" + prefix + "' overlaps with an existing prefix '" + old +
				"'. Prefixes for a single client must not overlap."
		}
		for _, other := range prefixes[i+1:] {
			if overlap(prefix, other) {
				return "Prefix '" + prefix + "' overlaps with another provided prefix '" + other +
					"'. Prefixes for a single client must not overlap."
			}
		}
	}
	return ""
}

// overlapping is the first of t.Prefixes, which are sorted, that overlaps with prefix. Apart from "", no two
// of them overlap, so one that does stands beside the place where prefix would be.
func overlapping(t *commands.Tracking, prefix string) (old string, ok bool) {
	at, _ := slices.BinarySearch(t.Prefixes, prefix)
	for _, i := range []int{0, at - 1, at} {
		if i >= 0 && i < len(t.Prefixes) && overlap(prefix, t.Prefixes[i]) {
			return t.Prefixes[i], true
		}
	}
	return "", false
}

// overlap says that a key can begin with both. Then each change of such a key would be told twice.
func overlap(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// clientCaching is CLIENT CACHING YES | NO. It holds for the next command, or for the next transaction. Which
// command uses it up is the session's to know.
func clientCaching(c *commands.Call) {
	t := &c.Client.Tracking
	yes, no := resp.IsWord(c.Args[2], "YES"), resp.IsWord(c.Args[2], "NO")
	switch {
	case !t.On:
		c.Reply(resp.ErrorLine("ERR CLIENT CACHING can be called only when the client is in tracking mode " +
			"with OPTIN or OPTOUT mode enabled"))
	case yes && !t.OptIn:
		c.Reply(resp.ErrorLine("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN " +
			"mode."))
	case no && !t.OptOut:
		c.Reply(resp.ErrorLine("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT " +
			"mode."))
	case !yes && !no:
		c.Reply(resp.ErrSyntax)
	default:
		t.Caching = true
		c.Reply(resp.OK)
	}
}

// clientGetRedir is CLIENT GETREDIR.
func clientGetRedir(c *commands.Call) { c.Reply(redcon.AppendInt(nil, c.Client.Tracking.Redir())) }

// clientTrackingInfo is CLIENT TRACKINGINFO: a map of flags, redirect and prefixes. The proxy knows all of
// it, so no node is asked.
func clientTrackingInfo(c *commands.Call) {
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
	out = resp.AppendNumber(resp.AppendBulks(out, flags...), "redirect", t.Redir())
	out = redcon.AppendArray(resp.AppendBulks(out, "prefixes"), len(t.Prefixes))
	c.Reply(resp.AppendBulks(out, t.Prefixes...))
}
