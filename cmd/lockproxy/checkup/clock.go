package checkup

import (
	"fmt"
	"strconv"
	"time"

	"lockproxy/cmd/lockproxy/tool/terminal"
	"lockproxy/internal/resp"
)

// clock is how the clock of a node stands against the one of this machine.
type clock struct {
	known  bool
	offset time.Duration
	about  time.Duration // the offset is known to that, more or less: half of the round trip
}

// heardTime takes the reply to a TIME that was sent then and came after trip. The quickest one counts.
func (c *clock) heardTime(reply resp.Value, sent time.Time, trip time.Duration) {
	if len(reply.Elems) != 2 || c.known && trip/2 >= c.about {
		return
	}
	seconds, _ := strconv.ParseInt(reply.Elems[0].Text(), 10, 64)
	micros, _ := strconv.ParseInt(reply.Elems[1].Text(), 10, 64)
	shown := time.Unix(seconds, micros*1000)
	// The node has read its clock somewhere between sent and sent+trip: the middle is wrong by half of trip
	// at most.
	*c = clock{true, shown.Sub(sent.Add(trip / 2)), trip / 2}
}

// least is how far apart two clocks are at least. What each of them may be wrong by is taken off, so 0 means
// that they may well agree.
func (c clock) least(d clock) time.Duration {
	return max((c.offset-d.offset).Abs()-c.about-d.about, 0)
}

// mostApart is how much clocks may differ: Fences rise across a fail-over as long as the clocks differ by
// less than the fail-over takes, and none takes less than a second.
const mostApart = time.Second

// tellClocks tells how the clocks of all nodes stand.
func tellClocks(all []*checkedNode, tell func(Fact)) {
	var first, last *checkedNode // with the lowest and the highest clock, of the upstream
	for _, n := range all {
		if n.err != nil || !n.clock.known {
			continue
		}
		level, remedy := OK, ""
		// clock{} is this machine's: it is ahead of itself by nothing
		if n.clock.least(clock{}) > mostApart {
			level, remedy = Warn, "let NTP or chrony set the clocks of both"
		}
		tell(Fact{level, "clock", n.addr, n.clock.String(), remedy})
		// Fences are counted by the masters of the upstream; those of RedLock have no fail-over among them.
		if n.part != member {
			continue
		}
		if first == nil || n.clock.offset < first.clock.offset {
			first = n
		}
		if last == nil || n.clock.offset > last.clock.offset {
			last = n
		}
	}
	// one node alone has nobody to differ from
	if first == nil || first == last {
		return
	}
	// Only what is sure fails: slow networks would make every clock look wrong.
	if apart := first.clock.least(last.clock); apart > mostApart {
		tell(Fact{Fail, "clocks", "", fmt.Sprintf("%s is behind %s by %s at least: after a fail-over, "+
			"fences could begin again below those of before", first.addr, last.addr, terminal.Brief(apart)),
			"let NTP or chrony set the clocks of all nodes"})
		return
	}
	tell(Fact{OK, "clocks", "", "no two nodes are known to be further apart than " + mostApart.String(), ""})
}

// String says where the clock stands.
func (c clock) String() string {
	side := "ahead of"
	if c.offset < 0 {
		side = "behind"
	}
	return fmt.Sprintf("%s %s this machine, give or take %s", terminal.Brief(c.offset.Abs()), side,
		terminal.Brief(c.about))
}
