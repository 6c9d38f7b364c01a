package server

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"lockproxy/commands"
)

// mergeInfo merges the INFO texts of several servers: sections and lines in the order in which they first
// come. What one server alone has is shown as it is. table says which commands run at all masters each time.
func mergeInfo(texts []string, table *commands.Table) []infoSection {
	var merged []infoSection
	// A server may lack a line that others have, so a position in these does not tell of which server a value
	// is.
	values := make(map[[2]string][]string) // by title and name
	for _, text := range texts {
		for _, s := range parseInfo(text) {
			i := slices.IndexFunc(merged, func(m infoSection) bool { return m.title == s.title })
			if i < 0 {
				merged = append(merged, infoSection{title: s.title})
				i = len(merged) - 1
			}
			if s.title == "Modules" { // lines of one name; the servers of an upstream have the same
				if len(merged[i].lines) == 0 {
					merged[i].lines = s.lines
				}
				continue
			}
			for _, line := range s.lines {
				id := [2]string{s.title, line[0]}
				if values[id] == nil {
					merged[i].lines = append(merged[i].lines, [2]string{line[0]})
				}
				values[id] = append(values[id], line[1])
			}
		}
	}
	for i := range merged {
		s := &merged[i]
		for j, line := range s.lines {
			if s.title == "Modules" {
				break
			}
			all := values[[2]string{s.title, line[0]}]
			if command, ok := strings.CutPrefix(line[0], "cmdstat_"); ok && goesEverywhere(table, command) {
				all = mostCalls(all)
			}
			s.lines[j][1] = mergeInfoValues(s.title, line[0], all)
		}
		s.lines = slices.DeleteFunc(s.lines, func(line [2]string) bool { return tellsOfNode(s.title, line) })
		s.writeHuman()
	}
	return merged
}

// tellsOfNode says that a line has the address of a node or of its replica, which clients are not to know.
// Lines such as "slave0:ip=10.0.0.2,port=6379,..." and "listener0:name=tcp,bind=...,port=6379".
func tellsOfNode(title string, line [2]string) bool {
	name, value := line[0], line[1]
	return title == "Replication" && strings.HasPrefix(name, "slave") && strings.Contains(value, "ip=") ||
		title == "Server" && strings.HasPrefix(name, "listener") && strings.Contains(value, "port=")
}

// mergeInfoValues merges the values that the servers gave for one name. values has at least one. The first
// case that fits decides:
func mergeInfoValues(title, name string, values []string) string {
	switch {
	case len(values) == 1:
		return values[0]
	// one process each; what matters of it is the proxy's own (proxyInfo)
	case title == "Server" || title == "Replication" || title == "Cluster":
		return values[0]
	// of saves and of the append-only file: one that failed must be seen
	case strings.HasSuffix(name, "_status"):
		failed := slices.IndexFunc(values, func(v string) bool { return v != "ok" })
		return values[max(failed, 0)]
	case strings.Contains(values[0], "="):
		return mergePairs(values, title == "Latencystats")
	case name == "rdb_last_save_time":
		return combine(values, math.Min) // all have saved since then
	case title == "Persistence" && (strings.HasSuffix(name, "_size") || strings.HasSuffix(name, "_length")):
		return combine(values, func(a, b float64) float64 { return a + b })
	// Flags such as loading or aof_enabled, for which the highest says that some server does it, and times.
	case title == "Persistence" && name != "rdb_changes_since_last_save", isPeak(name):
		return combine(values, math.Max)
	}
	return combine(values, func(a, b float64) float64 { return a + b })
}

// mostCalls is the value with the most calls. It is for commands that every master has run each time that a
// client sent one. Added up, each call of a client would count once for every master.
func mostCalls(values []string) []string {
	calls := func(value string) int {
		first, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, _ := strconv.Atoi(first)
		return n
	}
	return []string{slices.MaxFunc(values, func(a, b string) int { return calls(a) - calls(b) })}
}

// goesEverywhere says that a command, by its name as COMMAND has it, goes to all masters. Commands that the
// table does not have go to one node.
func goesEverywhere(t *commands.Table, name string) bool {
	c := t.Named([]byte(name))
	return c != nil && c.Everywhere()
}

// isPeak says that the highest value of several servers stands for all. So it is with ratios and percentages,
// which cannot be added, with times, and with the longest of something.
func isPeak(name string) bool {
	ends := []string{"_ratio", "_perc", "_time", "_usec", "_max_input_buffer", "_max_output_buffer"}
	return slices.ContainsFunc(sameEverywhere, func(s string) bool { return strings.HasPrefix(name, s) }) ||
		slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(name, end) })
}

// sameEverywhere are prefixes of names whose values are the same at all servers: the number of scripts, and
// their memory.
var sameEverywhere = []string{"number_of_cached_scripts", "number_of_functions", "number_of_libraries",
	"tracking_total_prefixes",
	"used_memory_lua", "used_memory_vm_", "used_memory_scripts", "used_memory_functions"}

// combine combines numbers, in the format of the first. Of other values it takes the first. The unit % and
// the number of decimals are those of the first value, so the result looks as a server would write it.
func combine(values []string, f func(a, b float64) float64) string {
	first, unit := values[0], ""
	if strings.HasSuffix(first, "%") {
		unit = "%"
	}
	_, fraction, _ := strings.Cut(strings.TrimSuffix(first, unit), ".")
	var result float64
	for i, v := range values {
		n, err := strconv.ParseFloat(strings.TrimSuffix(v, unit), 64)
		if err != nil {
			return first
		}
		if i == 0 {
			result = n
		} else {
			result = f(result, n)
		}
	}
	return strconv.FormatFloat(result, 'f', len(fraction), 64) + unit
}

// mergePairs merges values such as "keys=3,expires=1,avg_ttl=0": sums, weighted means, and the highest of
// percentiles. The names come in the order in which the servers first have them. peaks is for percentiles of
// latencies: of these the highest is nearest to the truth about all servers.
func mergePairs(values []string, peaks bool) string {
	var names []string
	all := make(map[string][]string)
	for _, value := range values {
		for pair := range strings.SplitSeq(value, ",") {
			name, v, _ := strings.Cut(pair, "=")
			if all[name] == nil {
				names = append(names, name)
			}
			all[name] = append(all[name], v)
		}
	}
	pairs := make([]string, len(names))
	for i, name := range names {
		v := ""
		// A mean needs a weight from each server that gave one.
		switch weights := all[weightOf[name]]; {
		case len(weights) == len(all[name]) && len(weights) > 0:
			v = weightedMean(all[name], weights)
		case peaks:
			v = combine(all[name], math.Max)
		default:
			v = combine(all[name], func(a, b float64) float64 { return a + b })
		}
		pairs[i] = name + "=" + v
	}
	return strings.Join(pairs, ",")
}

// weightOf names the weight of each mean: avg_ttl is the mean over all expires.
var weightOf = map[string]string{"avg_ttl": "expires", "usec_per_call": "calls"}

// weightedMean has the decimals of the first mean. Both slices have an element for each server. If nothing
// weighs anything, it is the first mean, which then is 0 anyway.
func weightedMean(means, weights []string) string {
	_, fraction, _ := strings.Cut(means[0], ".")
	var sum, total float64
	for i := range means {
		mean, _ := strconv.ParseFloat(means[i], 64)
		weight, _ := strconv.ParseFloat(weights[i], 64)
		sum += mean * weight
		total += weight
	}
	if total == 0 {
		return means[0]
	}
	return strconv.FormatFloat(sum/total, 'f', len(fraction), 64)
}

// writeHuman writes the lines "x_human" anew from the lines "x". Merged as texts they would be those of the
// first server.
func (s *infoSection) writeHuman() {
	for i, line := range s.lines {
		base, ok := strings.CutSuffix(line[0], "_human")
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(s.valueOf(base), 10, 64); err == nil {
			s.lines[i][1] = humanBytes(n)
		}
	}
}

// humanBytes is bytesToHuman of Redis. P is the largest unit.
func humanBytes(n uint64) string {
	if n < 1024 {
		return strconv.FormatUint(n, 10) + "B"
	}
	f, unit := float64(n)/1024, 0
	for ; f >= 1024 && unit < 4; unit++ {
		f /= 1024
	}
	return strconv.FormatFloat(f, 'f', 2, 64) + string("KMGTP"[unit])
}
