package server

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/redcon"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/commands/merge"
	"lockproxy/internal/resp"
)

const (
	// slowShown is how many entries SLOWLOG GET shows by default, slowKept how many Redis keeps.
	slowShown = 10
	slowKept  = 128
)

// slowlogGet is SLOWLOG GET [count]: the logs of all masters and of the proxy as if
// they were one.
func slowlogGet(c *commands.Call) {
	count := int64(slowShown)
	if len(c.Args) > 2 {
		var err error
		count, err = strconv.ParseInt(string(c.Args[2]), 10, 64)
		if err != nil || count < -1 || len(c.Args) > 3 {
			c.Forward(commands.AnySlot)
			return
		}
	}
	if count < 0 {
		count = math.MaxInt
	}
	slowlog(c, c.Raw, count, appendEntries)
}

// appendEntries is the reply that shows entries.
func appendEntries(entries []commands.SlowEntry) []byte {
	out := redcon.AppendArray(nil, len(entries))
	for _, e := range entries {
		out = appendEntry(&e, out)
	}
	return out
}

// slowlogLen is SLOWLOG LEN: how many entries SLOWLOG GET -1 shows.
func slowlogLen(c *commands.Call) {
	if len(c.Args) > 2 {
		c.Forward(commands.AnySlot)
		return
	}
	slowlog(c, resp.AppendCommandStrings(nil, "SLOWLOG", "GET", "-1"), math.MaxInt,
		func(entries []commands.SlowEntry) []byte {
			return redcon.AppendInt(nil, int64(len(entries)))
		})
}

// slowlogReset empties all logs.
func slowlogReset(c *commands.Call) {
	if len(c.Args) == 2 {
		c.Server.SlowLog().Reset()
	}
	c.AskAll(c.Raw, commands.Reread, merge.First)
}

// slowlog asks all masters for their logs by req. show makes the answer of the newest count entries.
func slowlog(c *commands.Call, req []byte, count int64, show func([]commands.SlowEntry) []byte) {
	m := slowMerge{log: c.Server.SlowLog(), table: c.Table, own: c.Server.SlowLog().Own(), count: count}
	actions := c.Actions
	c.AskAll(req, commands.Asking{Resend: true, Always: true}, func(_ int, replies [][]byte) []byte {
		actions.Await(func(done func([]byte)) {
			go func() { // ends by itself
				if m.merge(replies); m.answer == nil && len(m.merged) <= m.longest {
					m.answer = show(m.merged)
				}
				done(nil)
			}()
		}, func([]byte) []byte {
			if m.answer != nil {
				return m.answer
			}
			// One Redis would keep fewer entries than all of them together.
			actions.Ask(pipe.ToMaster(0), askSlowKept, commands.Reread, func(reply []byte) []byte {
				kept := max(m.longest, slowlogMaxLen(reply, m.log))
				actions.Await(func(done func([]byte)) {
					go func() { done(show(m.merged[:min(len(m.merged), kept)])) }() // ends by itself
				}, func(reply []byte) []byte { return reply }, nil)
				return nil
			})
			return nil
		}, nil)
		return nil
	})
}

// slowMerge merges the logs of all nodes and of the proxy.
type slowMerge struct {
	log     commands.SlowLog
	table   *commands.Table
	own     []commands.SlowEntry
	count   int64                // of entries that are asked for
	merged  []commands.SlowEntry // no more than those
	longest int                  // of the logs of the nodes
	answer  []byte               // if one of them has none
}

// merge merges replies. It may take long.
func (m *slowMerge) merge(replies [][]byte) {
	all, bad := parseArrays(replies)
	if m.answer = bad; bad != nil {
		return
	}
	logs := [][]commands.SlowEntry{m.own}
	for _, elems := range all {
		entries, ok := parseSlowlog(elems)
		if !ok {
			m.answer = resp.ErrUnexpected
			return
		}
		logs = append(logs, entries)
		m.longest = max(m.longest, len(entries))
	}
	m.merged = mergeSlowlogs(logs, m.table)
	whose := m.log.Whose()
	for i := range m.merged {
		if addr, name, ok := whose(m.merged[i]); ok {
			m.merged[i].Addr, m.merged[i].Name = addr, name
		}
		redact(m.table, m.merged[i].Args)
	}
	m.merged = m.merged[:min(int64(len(m.merged)), m.count)]
}

var askSlowKept = resp.AppendCommandStrings(nil, "CONFIG", "GET", "slowlog-*")

// slowlogMaxLen reads the reply to askSlowKept.
func slowlogMaxLen(reply []byte, log commands.SlowLog) int {
	kept := slowKept
	v, _, err := resp.Parse(reply)
	if err != nil || !resp.IsMap(v) {
		return kept
	}
	for i := 0; i+1 < len(v.Elems); i += 2 {
		name, value := v.Elems[i].Text(), v.Elems[i+1].Text()
		log.Limits(name, value)
		if n, err := strconv.Atoi(value); err == nil && name == "slowlog-max-len" {
			kept = n
		}
	}
	return kept
}

// parseSlowlog reads the entries of one node. Before 4.0, Redis does not tell the client.
func parseSlowlog(elems []resp.Value) (entries []commands.SlowEntry, ok bool) {
	for _, v := range elems {
		if len(v.Elems) < 4 {
			return nil, false
		}
		e := commands.SlowEntry{ID: v.Elems[0].Int, Time: v.Elems[1].Int, Took: v.Elems[2].Int}
		for _, arg := range v.Elems[3].Elems {
			e.Args = append(e.Args, arg.Str)
		}
		if len(v.Elems) > 5 {
			e.Addr, e.Name = v.Elems[4].Text(), v.Elems[5].Text()
		}
		entries = append(entries, e)
	}
	return entries, true
}

// slowHead is a position in one log while logs are merged.
type slowHead struct {
	entries []commands.SlowEntry
	keys    []string // by entry: "" or, of a command that went to all masters, which it is
}

func (h *slowHead) key() string { return h.keys[0] }

func (h *slowHead) drop() { h.entries, h.keys = h.entries[1:], h.keys[1:] }

// mergeSlowlogs merges several logs, each with the newest entry first. A command that went to all masters
// stands in the result once. Times are whole seconds; but since that command stands in every log, the
// entries that are newer than it in one of them come before it in the result.
func mergeSlowlogs(logs [][]commands.SlowEntry, table *commands.Table) []commands.SlowEntry {
	heads := make([]*slowHead, len(logs))
	stands := make(map[string]int) // in how many logs
	total := 0
	for i, entries := range logs {
		h := &slowHead{entries, make([]string, len(entries))}
		nth := make(map[string]int)
		for j := range entries {
			e := &entries[j]
			e.ID = e.ID*int64(len(logs)) + int64(i)
			if fanned(table, e.Args) {
				command := string(resp.AppendCommand(nil, e.Args...))
				nth[command]++
				h.keys[j] = strconv.Itoa(nth[command]) + command
				stands[h.keys[j]]++
			}
		}
		heads[i] = h
		total += len(entries)
	}
	merged := make([]commands.SlowEntry, 0, total)
	for {
		best := newestHead(heads, stands)
		if best == nil {
			return merged
		}
		e, key := best.entries[0], best.key()
		best.drop()
		for _, h := range heads {
			if key != "" && len(h.entries) > 0 && h.key() == key {
				e.Time, e.Took = max(e.Time, h.entries[0].Time), max(e.Took, h.entries[0].Took)
				h.drop()
			}
		}
		merged = append(merged, e)
	}
}

// newestHead is the log whose entry comes next; nil when all are done. An entry that stands in several logs
// waits until it is the newest in each.
func newestHead(heads []*slowHead, stands map[string]int) *slowHead {
	var best *slowHead
	ready := false
	for _, h := range heads {
		if len(h.entries) == 0 {
			continue
		}
		is := h.key() == ""
		if !is {
			n := 0
			for _, other := range heads {
				if len(other.entries) > 0 && other.key() == h.key() {
					n++
				}
			}
			is = n == stands[h.key()]
		}
		if best == nil || is && !ready || is == ready && h.entries[0].Time > best.entries[0].Time {
			best, ready = h, is
		}
	}
	return best
}

// fanned says that a command goes to all masters.
func fanned(t *commands.Table, args [][]byte) bool {
	if len(args) == 0 {
		return false
	}
	c, _ := t.Resolve(args)
	return c.Everywhere()
}

// goesEverywhere says the same of a command by its name as COMMAND has it.
func goesEverywhere(t *commands.Table, name string) bool {
	container, sub, isSub := strings.Cut(name, "|")
	c := t.Lookup([]byte(container))
	if c != nil && isSub {
		c = c.Subs[sub]
	}
	return c != nil && c.Everywhere()
}

// appendEntry appends e as Redis writes it.
func appendEntry(e *commands.SlowEntry, dst []byte) []byte {
	dst = redcon.AppendArray(dst, 6)
	dst = redcon.AppendInt(dst, e.ID)
	dst = redcon.AppendInt(dst, e.Time)
	dst = redcon.AppendInt(dst, e.Took)
	dst = redcon.AppendArray(dst, len(e.Args))
	for _, arg := range e.Args {
		dst = redcon.AppendBulk(dst, arg)
	}
	return resp.AppendBulks(dst, e.Addr, e.Name)
}

// redact hides the secrets in args, an entry of a node: a node may show secrets in settings that it does not
// know. Entries of the proxy have no secrets, and are not written to, because others read them meanwhile.
func redact(t *commands.Table, args [][]byte) {
	if len(args) == 0 {
		return
	}
	c, _ := t.Resolve(args)
	for i, secret := range c.Secrets(args) {
		if secret && !bytes.Equal(args[i], commands.Redacted) {
			args[i] = commands.Redacted
		}
	}
}

func emptiesSlowLog([][]byte) commands.Queued { return commands.Queued{DB: -1, EmptiesSlowLog: true} }

// parseArrays are the elements of replies that are arrays; bad is the answer if they
// are not.
func parseArrays(replies [][]byte) (all [][]resp.Value, bad []byte) {
	if err := merge.FirstError(replies); err != nil {
		return nil, err
	}
	for _, reply := range replies {
		v, _, err := resp.Parse(reply)
		if err != nil || v.Kind != '*' {
			return nil, resp.ErrUnexpected
		}
		all = append(all, v.Elems)
	}
	return all, nil
}

func appendArray(elems []resp.Value) []byte {
	return resp.AppendValue(nil, resp.Value{Kind: '*', Elems: elems})
}
