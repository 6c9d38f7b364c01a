package server

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"lockproxy/commands"
)

// addOwn adds what the proxy did by itself to what the servers tell in INFO. It adds to sections that the
// servers have shown, which are those that the client asked for, and makes none.
func addOwn(sections []infoSection, own commands.OwnStats) {
	for i := range sections {
		switch s := &sections[i]; s.title {
		case "Commandstats":
			for _, o := range own.Commands() {
				s.addNumbers("cmdstat_"+o.Name, statText(&o))
			}
		// in the order of their names, as Redis has them
		case "Errorstats":
			errors := own.Errors()
			for _, name := range slices.Sorted(maps.Keys(errors)) {
				s.addNumbers("errorstat_"+name, "count="+strconv.FormatUint(errors[name], 10))
			}
		case "Stats":
			// Servers older than 6.2 do not count them.
			if have, err := strconv.ParseUint(s.valueOf("total_error_replies"), 10, 64); err == nil {
				s.setLine([2]string{"total_error_replies", strconv.FormatUint(have+sum(own.Errors()), 10)})
			}
		}
	}
}

// addNumbers adds the numbers of value to those of the line with that name, or adds the line.
func (s *infoSection) addNumbers(name, value string) {
	if have := s.valueOf(name); have != "" {
		value = mergePairs([]string{have, value}, false)
	}
	s.setLine([2]string{name, value})
}

// statText is how INFO shows o. The names are those of a cmdstat line of Redis since 6.2; mergePairs adds
// them to those of a server by name.
func statText(o *commands.OwnCommand) string {
	mean := 0.0
	if o.Calls > 0 {
		mean = float64(o.Micros) / float64(o.Calls)
	}
	return fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d", o.Calls,
		o.Micros, mean, o.Rejected, o.Failed)
}
