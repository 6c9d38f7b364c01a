package redlock

import (
	"strconv"
	"time"

	"github.com/tidwall/redcon"
)

// combineInspect makes a lock of the holds that a majority has. Of each it takes what remains on a
// majority, and the fence and count that most have.
func combineInspect(p *poll) ([]byte, bool) {
	if len(p.said) < p.need {
		return nil, false
	}
	type name struct {
		owner string
		mode  Mode
	}
	all := make(map[name][]Holder)
	for _, v := range p.said {
		if v.Null() {
			continue
		}
		s, err := readState(v)
		if err != nil {
			return nil, false
		}
		for _, h := range s.Holders {
			n := name{h.Owner, h.Mode}
			all[n] = append(all[n], h)
		}
	}
	now := time.Now().UnixMilli()
	words := []string{strconv.FormatInt(now*1000, 10), "v", "1"} // as inspect.lua says it
	for n, holders := range all {
		if len(holders) < p.need {
			if len(holders)+p.n-len(p.said) >= p.need {
				return nil, false // those that are silent may have it
			}
			continue
		}
		var ttls, fences, counts, ages []int64
		kept, meta := "-", ""
		for _, h := range holders {
			ttls, fences = append(ttls, h.TTL.Milliseconds()), append(fences, h.Fence)
			counts, ages = append(counts, h.Count), append(ages, h.Age.Milliseconds())
			if h.Kept {
				kept = "kept"
			}
			if h.Meta != "" {
				meta = " " + h.Meta
			}
		}
		left := p.left(highest(ttls, p.need))
		if left == 0 {
			continue
		}
		text := strconv.AppendInt(nil, now+left, 10)
		for _, number := range []int64{commonest(counts), commonest(fences), now - commonest(ages)} {
			text = strconv.AppendInt(append(text, ' '), number, 10)
		}
		hold := string(text) + " " + kept + " -" + meta
		if n.mode == Write {
			words = append(words, "o", n.owner, "w", hold)
		} else {
			words = append(words, "r:"+n.owner, hold)
		}
	}
	if len(words) == 3 {
		return []byte("$-1\r\n"), true
	}
	reply := redcon.AppendArray(nil, len(words))
	for _, w := range words {
		reply = redcon.AppendBulkString(reply, w)
	}
	return reply, true
}
