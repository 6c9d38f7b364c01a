package lockevent

import (
	"strconv"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/internal/resp"
)

// A message holds events that a proxy publishes for those who watch locks, each of them an array:
//
//	kind, lock, mode, token, fence, client, name, user, proxy, time in µs, reason, count
//
// Later versions may add elements behind these.
const elements = 12

// MostLock is up to how many bytes of the name of a lock are told.
const MostLock = 1024

// Append appends e to a message.
func (e *Event) Append(dst []byte) []byte {
	dst = redcon.AppendArray(dst, elements)
	return resp.AppendBulks(dst, string(e.Kind), e.Lock[:min(len(e.Lock), MostLock)], e.Mode, e.Token,
		strconv.FormatInt(e.Fence, 10), short(e.Client.Addr), short(e.Client.Name), short(e.Client.User),
		e.Proxy, strconv.FormatInt(e.Time.UnixMicro(), 10), e.Reason, strconv.FormatUint(e.Count, 10))
}

func short(text string) string { return text[:min(len(text), mostText)] }

// mostEvents bounds the events of a message, mostText the texts in it but the names of locks.
const (
	mostEvents = 10_000
	mostText   = 256
)

// Read returns the events of a message. Anyone who may publish can send one, so what is none of ours is left
// out. What is malformed ends the message, since nobody knows where the next event would begin. An event of
// an unknown kind, from a later version perhaps, is passed over.
func Read(message []byte) (all []Event) {
	for len(message) > 0 && len(all) < mostEvents {
		v, rest, err := resp.Parse(message)
		if err != nil {
			break
		}
		if e, ok := readEvent(v.Elems); ok {
			all = append(all, e)
		}
		message = rest
	}
	return all
}

// readEvent reads one event.
func readEvent(words []resp.Value) (e Event, ok bool) {
	if len(words) < elements {
		return e, false
	}
	// Names and texts go on to clients and into the audit log, so their length is judged here.
	for i, w := range words {
		if n := len(w.Text()); n > MostLock || n > mostText && i != 1 {
			return e, false
		}
	}
	text := func(i int) string { return words[i].Text() }
	switch e.Kind = Kind(text(0)); e.Kind {
	case Granted, Released, Lost, Broken, Waiting, TimedOut, Missed:
	default:
		return e, false
	}
	fence, err := strconv.ParseInt(text(4), 10, 64)
	micros, err2 := strconv.ParseInt(text(9), 10, 64)
	count, err3 := strconv.ParseUint(text(11), 10, 63)
	if err != nil || err2 != nil || err3 != nil {
		return e, false
	}
	e.Lock, e.Mode, e.Token, e.Fence = text(1), text(2), text(3), fence
	e.Client = Client{Addr: text(5), Name: text(6), User: text(7)}
	e.Proxy, e.Time, e.Reason, e.Count = text(8), time.UnixMicro(micros), text(10), count
	return e, true
}
