package server

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"lockproxy/commands"
	"lockproxy/commands/merge"
	"lockproxy/internal/resp"
)

// mergeLatest merges the replies to LATENCY LATEST, whose elements are event, time, latency and highest
// latency: for each event the newest spike, and the highest of all.
func mergeLatest(_ int, replies [][]byte) []byte {
	all, bad := parseArrays(replies)
	if bad != nil {
		return bad
	}
	var events []resp.Value
	for _, e := range slices.Concat(all...) {
		if len(e.Elems) < 4 {
			return resp.ErrUnexpected
		}
		i := slices.IndexFunc(events,
			func(have resp.Value) bool { return have.Elems[0].Text() == e.Elems[0].Text() })
		if i < 0 {
			events = append(events, e)
			continue
		}
		have := events[i].Elems
		if cmp.Or(cmp.Compare(e.Elems[1].Int, have[1].Int), cmp.Compare(e.Elems[2].Int, have[2].Int)) > 0 {
			have[1], have[2] = e.Elems[1], e.Elems[2]
		}
		have[3].Int = max(have[3].Int, e.Elems[3].Int)
	}
	return appendArray(events)
}

// historySamples is how many spikes of an event Redis remembers.
const historySamples = 160

// mergeHistory merges the replies to LATENCY HISTORY, whose elements are time and latency: the highest of
// each second, the oldest first.
func mergeHistory(_ int, replies [][]byte) []byte {
	all, bad := parseArrays(replies)
	if bad != nil {
		return bad
	}
	samples := slices.Concat(all...)
	for _, e := range samples {
		if len(e.Elems) < 2 {
			return resp.ErrUnexpected
		}
	}
	slices.SortStableFunc(samples, func(a, b resp.Value) int {
		return cmp.Or(cmp.Compare(a.Elems[0].Int, b.Elems[0].Int),
			cmp.Compare(b.Elems[1].Int, a.Elems[1].Int))
	})
	samples = slices.CompactFunc(samples,
		func(a, b resp.Value) bool { return a.Elems[0].Int == b.Elems[0].Int })
	return appendArray(samples[max(0, len(samples)-historySamples):])
}

// mergeHistogram merges the replies to LATENCY HISTOGRAM: a map from commands to maps of calls and
// histogram_usec, which is a map from upper bounds to how many calls took no longer.
func mergeHistogram(table *commands.Table) commands.Merge {
	return merge.Maps(func(command string, a *resp.Value, b resp.Value) {
		switch {
		case !goesEverywhere(table, command):
			joinHistograms(command, a, b)
		case callsOf(b) > callsOf(*a):
			*a = b
		}
	})
}

func callsOf(v resp.Value) int64 {
	if i := resp.IndexOf(v, []byte("calls")); i >= 0 {
		return v.Elems[i].Int
	}
	return 0
}

func joinHistograms(_ string, a *resp.Value, b resp.Value) {
	merge.Unite(a, b, func(name string, a *resp.Value, b resp.Value) {
		if name == "calls" {
			a.Int += b.Int
		} else {
			a.Elems = addHistograms(a.Elems, b.Elems)
		}
	})
}

// addHistograms adds two histograms of cumulative counts, whose bounds may differ.
func addHistograms(a, b []resp.Value) []resp.Value {
	var bounds []int64
	for _, h := range [][]resp.Value{a, b} {
		for i := 0; i+1 < len(h); i += 2 {
			bounds = append(bounds, h[i].Int)
		}
	}
	slices.Sort(bounds)
	var sum []resp.Value
	for _, bound := range slices.Compact(bounds) {
		n := countUpTo(a, bound) + countUpTo(b, bound)
		sum = append(sum, resp.Value{Kind: ':', Int: bound}, resp.Value{Kind: ':', Int: n})
	}
	return sum
}

// countUpTo is how many calls of a histogram took no longer than bound.
func countUpTo(h []resp.Value, bound int64) int64 {
	var n int64
	for i := 0; i+1 < len(h) && h[i].Int <= bound; i += 2 {
		n = h[i+1].Int
	}
	return n
}

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

// latencyHistogram is LATENCY HISTOGRAM [command ...]: what the masters took, and the proxy
// for what it answers itself.
func latencyHistogram(c *commands.Call) {
	var own []commands.OwnCommand
	for _, o := range c.Server.OwnStats().Commands() {
		if o.Calls > 0 && asksFor(c.Args[2:], o.Name) {
			own = append(own, o)
		}
	}
	mergeAll := mergeHistogram(c.Table)
	c.AskAll(c.Raw, commands.Reread, func(proto int, replies [][]byte) []byte {
		merged := mergeAll(proto, replies)
		v, _, err := resp.Parse(merged)
		if err != nil || !resp.IsMap(v) || len(own) == 0 {
			return merged
		}
		kind := v.Kind
		bulk := func(s string) resp.Value { return resp.Value{Kind: '$', Str: []byte(s)} }
		number := func(n uint64) resp.Value { return resp.Value{Kind: ':', Int: int64(n)} }
		for _, o := range own {
			took := resp.Value{Kind: kind,
				Elems: []resp.Value{number(bucketOf(o.Micros / o.Calls)), number(o.Calls)}}
			said := resp.Value{Kind: kind,
				Elems: []resp.Value{bulk("calls"), number(o.Calls), bulk("histogram_usec"), took}}
			merge.Unite(&v, resp.Value{Elems: []resp.Value{bulk(o.Name), said}}, joinHistograms)
		}
		return resp.AppendValue(nil, v)
	})
}

// asksFor says whether the client asked for a command, by its own name or that of its container. Without
// names it asked for all.
func asksFor(names [][]byte, command string) bool {
	container, _, _ := strings.Cut(command, "|")
	for _, name := range names {
		if strings.EqualFold(string(name), command) || strings.EqualFold(string(name), container) {
			return true
		}
	}
	return len(names) == 0
}

// bucketOf is the bucket of Redis's histograms that n µs fall into: its upper bound, a power of two.
func bucketOf(n uint64) uint64 { return 1 << bits.Len64(n) }
