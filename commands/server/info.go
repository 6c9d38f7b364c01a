package server

import (
	"cmp"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockproxy/commands"
	"lockproxy/commands/merge"
	"lockproxy/internal/resp"
	"lockproxy/redlock/locks"
)

// infoSection is one part of the text of INFO. The order of the lines is that in which they are shown. A name
// stands once, but for those of Modules.
type infoSection struct {
	title string
	lines [][2]string // name, value
}

// proxySection is the title of the part that tells of the proxy alone. Its name in any case is also the
// section of INFO that asks nobody.
const proxySection = "Lockproxy"

// info is INFO [section ...]: the servers of the upstream as if they were one, which is the proxy. Masters
// that give an error are left out of the sums and counted (upstream_masters_silent): some numbers are better
// than none. Only if none answers, and the proxy has nothing of what was asked for, is the error the answer.
func info(c *commands.Call) {
	wanted, server := newWanted(c.Args[1:]), c.Server
	facts, now := server.Facts(), time.Now()
	// That section is the last of ours, and needs no master.
	if len(wanted) == 1 && wanted[strings.ToLower(proxySection)] {
		ours := proxyInfo(facts, server, now)
		c.Reply(resp.AppendVerbatim(nil, c.Client.Proto, infoText(ours[len(ours)-1:])))
		return
	}
	table := c.Table
	c.AskAll(c.Raw, commands.Reread, func(proto int, replies [][]byte) []byte {
		var texts []string
		for _, reply := range replies {
			if v, _, err := resp.Parse(reply); err == nil && v.Err() == "" {
				texts = append(texts, v.Text())
			}
		}
		merged := mergeInfo(texts, table)
		facts.Blocked = blockedAt(merged, facts.Blocked)
		ours := proxyInfo(facts, server, now)
		asked := func(s infoSection) bool { return wanted.wantsSection(s.title) }
		if len(texts) == 0 && !slices.ContainsFunc(ours, asked) {
			return merge.FirstError(replies)
		}
		silent := len(replies) - len(texts)
		sections := overlayInfo(merged, ours, wanted)
		addOwn(sections, server.OwnStats())
		if wanted.wantsSection(proxySection) {
			// overlayInfo has put it last.
			last := &sections[len(sections)-1]
			last.lines = append(last.lines,
				[2]string{"upstream_masters", strconv.Itoa(len(replies))},
				[2]string{"upstream_masters_silent", strconv.Itoa(silent)})
		}
		return resp.AppendVerbatim(nil, proto, infoText(sections))
	})
}

// wanted are the sections that a client asked for, in lower case. Without arguments, that is "default".
type wanted map[string]bool

func newWanted(args [][]byte) wanted {
	w := make(wanted)
	for _, arg := range args {
		w[strings.ToLower(string(arg))] = true
	}
	if len(w) == 0 {
		w["default"] = true
	}
	return w
}

// wantsSection says whether the client wants a section that all servers show by default.
func (w wanted) wantsSection(title string) bool {
	return w["default"] || w["all"] || w["everything"] || w[strings.ToLower(title)]
}

// proxyInfo are the lines that the proxy knows better than the upstream; its own section comes last. They
// take the place of the lines of the same names that the servers have (overlayInfo). A proxy on a unix socket
// alone has port 0, as Redis has. cluster_enabled is what the proxy looks like, and not what the upstream is.
func proxyInfo(f commands.Facts, s commands.Server, now time.Time) []infoSection {
	_, port, _ := net.SplitHostPort(f.Addr)
	up := int64(now.Sub(f.Started).Seconds())
	number := func(n int) string { return strconv.Itoa(n) }
	count := func(n uint64) string { return strconv.FormatUint(n, 10) }
	server := [][2]string{
		{"redis_version", commands.ToldVersion(s)},
		{"lockproxy_version", f.Version}, // another lockproxy refuses this one as its upstream by that
		{"redis_mode", commands.ModeName(s)},
		{"process_id", number(os.Getpid())},
		{"run_id", f.RunID},
		{"tcp_port", cmp.Or(port, "0")},
		{"server_time_usec", strconv.FormatInt(now.UnixMicro(), 10)},
		{"uptime_in_seconds", strconv.FormatInt(up, 10)},
		{"uptime_in_days", strconv.FormatInt(up/86400, 10)},
		{"executable", f.Executable},
		{"config_file", f.ConfigFile},
	}
	return []infoSection{
		{"Server", server},
		{"Clients", [][2]string{
			{"connected_clients", number(f.Clients)},
			{"cluster_connections", "0"},
			{"maxclients", number(f.MaxClients)},
			// Those that the proxy holds back count at once, others when their nodes say so (blockedAt).
			{"blocked_clients", number(f.Blocked + int(f.Locks[locks.Waiters]) + f.Held)},
			{"tracking_clients", number(f.Tracking)},
			// by commands.Pause, whose order these have
			{"paused_reason", [...]string{"none", "client_pause", "client_pause"}[f.Pause]},
			{"paused_actions", [...]string{"none", "write", "all"}[f.Pause]},
			{"paused_timeout_milliseconds", strconv.FormatInt(f.PauseLeft.Milliseconds(), 10)},
		}},
		{"Stats", [][2]string{
			{"total_connections_received", count(f.ClientsTotal)},
			{"total_commands_processed", count(f.Calls)},
			{"total_net_input_bytes", count(f.BytesIn)},
			{"total_net_output_bytes", count(f.BytesOut)},
			{"rejected_connections", count(f.ClientsRejected)},
			{"evicted_clients", count(f.Evicted)},
		}},
		{"Replication", [][2]string{{"role", "master"}, {"connected_slaves", "0"}}},
		{"Cluster", [][2]string{{"cluster_enabled", strconv.FormatInt(resp.Truth(s.ClusterMode()), 10)}}},
		{proxySection, [][2]string{
			{"upstream", f.Upstream},
			{"clients_memory", strconv.FormatInt(f.Memory, 10)},
			{"clients_memory_limit", strconv.FormatInt(f.MaxMemory, 10)},
			{"redirects_followed", count(sum(f.Redirects))},
			{"locks_granted", count(f.Locks.Granted())},
			{"locks_refused", count(f.Locks.Refused())},
			{"lock_waiters", count(f.Locks[locks.Waiters])},
			{"locks_kept", count(f.Locks[locks.Kept])},
			{"lock_renewals", count(f.Locks[locks.Renewals])},
			{"locks_lost", count(f.Locks.Lost())},
		}},
	}
}

// infoOrder is how Redis orders the sections, ours last. Sections that are not among them, as modules have,
// stand at the place of "".
var infoOrder = []string{"Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU",
	"Modules", "Commandstats", "Errorstats", "Latencystats", "Cluster", "Keyspace", "", proxySection}

// overlayInfo puts our lines over the merged ones. sections are those that the masters have shown, which are
// what the client asked for. A section of ours that it asked for, and no master has, is added.
func overlayInfo(sections, ours []infoSection, wanted wanted) []infoSection {
	for _, own := range ours {
		if !wanted.wantsSection(own.title) {
			continue
		}
		i := slices.IndexFunc(sections, func(s infoSection) bool { return s.title == own.title })
		if i < 0 {
			sections = append(sections, infoSection{title: own.title})
			i = len(sections) - 1
		}
		for _, line := range own.lines {
			if line[0] == "redis_mode" && sections[i].valueOf("server_mode") != "" {
				line[0] = "server_mode" // as Valkey calls it
			}
			// not all servers tell that
			newer := line[0] == "tracking_clients" || strings.HasPrefix(line[0], "paused_")
			if !newer || sections[i].valueOf(line[0]) != "" {
				sections[i].setLine(line)
			}
		}
	}
	// A stable sort keeps the order of those that are not known.
	place := func(s infoSection) int {
		if i := slices.Index(infoOrder, s.title); i >= 0 {
			return i
		}
		return slices.Index(infoOrder, "")
	}
	slices.SortStableFunc(sections, func(a, b infoSection) int { return place(a) - place(b) })
	return sections
}

// setLine replaces the line of that name, or adds one.
func (s *infoSection) setLine(line [2]string) {
	for i := range s.lines {
		if s.lines[i][0] == line[0] {
			s.lines[i] = line
			return
		}
	}
	s.lines = append(s.lines, line)
}

// valueOf is the value of a name, or "". No line of INFO that matters here has an empty value, so "" says
// that there is none.
func (s *infoSection) valueOf(name string) string {
	for _, line := range s.lines {
		if line[0] == name {
			return line[1]
		}
	}
	return ""
}

// infoText is how Redis writes sections. An empty line parts the sections, and none stands at the end.
func infoText(sections []infoSection) string {
	var b strings.Builder
	for i, s := range sections {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + s.title + "\r\n")
		for _, line := range s.lines {
			b.WriteString(line[0] + ":" + line[1] + "\r\n")
		}
	}
	return b.String()
}

// parseInfo takes the text of one server apart. Lines before the first title, and lines without a colon, are
// left out.
func parseInfo(text string) []infoSection {
	var sections []infoSection
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if title, ok := strings.CutPrefix(line, "# "); ok {
			sections = append(sections, infoSection{title: title})
			continue
		}
		if name, value, ok := strings.Cut(line, ":"); ok && len(sections) > 0 {
			s := &sections[len(sections)-1]
			s.lines = append(s.lines, [2]string{name, value})
		}
	}
	return sections
}

// blockedAt is how many of the clients whose command was sent to a node are blocked there. Each counts only
// once the node says that it blocks: whoever polls INFO until a client is blocked, and then acts, must not be
// faster than the command. upstream is what the masters say, merged. If they do not tell (the section was not
// asked for), all that were sent count.
func blockedAt(upstream []infoSection, sent int) int {
	for _, s := range upstream {
		if n, err := strconv.Atoi(s.valueOf("blocked_clients")); err == nil {
			sent = min(sent, n)
		}
	}
	return sent
}

// sum adds up counters that are kept by kind.
func sum(counters map[string]uint64) (n uint64) {
	for _, one := range counters {
		n += one
	}
	return n
}
