package server

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"lockproxy/commands"
)

// addOwn adds what the proxy did by itself to what the servers tell in INFO.
func addOwn(sections []infoSection, own commands.OwnStats) {
	for i := range sections {
		switch s := &sections[i]; s.title {
		case "Commandstats":
			for _, o := range own.Commands() {
				s.add("cmdstat_"+o.Name, statText(&o))
			}
		case "Errorstats":
			errors := own.Errors()
			for _, name := range slices.Sorted(maps.Keys(errors)) {
				s.add("errorstat_"+name, "count="+strconv.FormatUint(errors[name], 10))
			}
		case "Stats":
			total := uint64(0)
			for _, n := range own.Errors() {
				total += n
			}
			if have, err := strconv.ParseUint(s.get("total_error_replies"), 10, 64); err == nil {
				s.set([2]string{"total_error_replies", strconv.FormatUint(have+total, 10)})
			}
		}
	}
}

// add adds the numbers of value to those of the line with that name, or adds the line.
func (s *infoSection) add(name, value string) {
	if have := s.get(name); have != "" {
		value = mergePairs([]string{have, value}, false)
	}
	s.set([2]string{name, value})
}

// statText is how INFO shows o.
func statText(o *commands.OwnCommand) string {
	mean := 0.0
	if o.Calls > 0 {
		mean = float64(o.Micros) / float64(o.Calls)
	}
	return fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d", o.Calls,
		o.Micros, mean, o.Rejected, o.Failed)
}
