package locks

// Lock is one lock as LOCKCTL LIST and LOCKCTL INFO tell it; its fields have the names that they have there.
// Times are in ms.
type Lock struct {
	Name    string   `json:"name"`
	State   string   `json:"state"` // free, read, write, permits or resting
	Fence   int64    `json:"fence"`
	Holders []Holder `json:"holders"`
	Waiters int64    `json:"waiters"`
	Used    int64    `json:"used,omitempty"` // permits, Of that many
	Of      int64    `json:"of,omitempty"`
	Key     string   `json:"key"`
	Waiting []Waiter `json:"waiting"`        // the first of the waiters
	Rest    int64    `json:"rest,omitempty"` // for how long it rests
}

// Party is a client that holds a lock, or waits for it. Its fields are empty if it is not known.
type Party struct {
	Client string `json:"client"` // the name that it has given itself
	Addr   string `json:"addr"`
	User   string `json:"user"`
	Proxy  string `json:"proxy"`
}

// Holder is one hold.
type Holder struct {
	Token string `json:"token"` // its digest
	Mode  string `json:"mode"`
	TTL   int64  `json:"ttl"`
	Count int64  `json:"count"`
	Fence int64  `json:"fence"`
	Age   int64  `json:"age"`
	Meta  string `json:"meta"`
	Kept  int64  `json:"kept"`
	Party
	Since  int64 `json:"since"` // Unix time
	Waited int64 `json:"waited"`
}

// Waiter is one that waits.
type Waiter struct {
	Mode string `json:"mode"`
	Party
	Waited int64 `json:"waited"`
}

// reader is what takes the fields of a map one by one.
type reader[T any] interface {
	*T
	take(name string, value any)
}

// read makes a T of a map that came as names and values in turn. What is of another kind than expected, or
// has another name, is left out.
func read[T any, R reader[T]](reply any) (t T) {
	pairs, _ := reply.([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		R(&t).take(text(pairs[i]), pairs[i+1])
	}
	return t
}

func readAll[T any, R reader[T]](reply any) []T {
	elems, _ := reply.([]any)
	all := make([]T, len(elems))
	for i, e := range elems {
		all[i] = read[T, R](e)
	}
	return all
}

func text(v any) string  { s, _ := v.(string); return s }
func number(v any) int64 { n, _ := v.(int64); return n }

func (l *Lock) take(name string, v any) {
	switch name {
	case "name":
		l.Name = text(v)
	case "state":
		l.State = text(v)
	case "fence":
		l.Fence = number(v)
	case "holders":
		l.Holders = readAll[Holder](v)
	case "waiters":
		l.Waiters = number(v)
	case "used":
		l.Used = number(v)
	case "of":
		l.Of = number(v)
	case "key":
		l.Key = text(v)
	case "waiting":
		l.Waiting = readAll[Waiter](v)
	case "rest":
		l.Rest = number(v)
	}
}

func (h *Holder) take(name string, v any) {
	switch name {
	case "token":
		h.Token = text(v)
	case "mode":
		h.Mode = text(v)
	case "ttl":
		h.TTL = number(v)
	case "count":
		h.Count = number(v)
	case "fence":
		h.Fence = number(v)
	case "age":
		h.Age = number(v)
	case "meta":
		h.Meta = text(v)
	case "kept":
		h.Kept = number(v)
	case "since":
		h.Since = number(v)
	case "waited":
		h.Waited = number(v)
	default:
		h.Party.take(name, v)
	}
}

func (w *Waiter) take(name string, v any) {
	switch name {
	case "mode":
		w.Mode = text(v)
	case "waited":
		w.Waited = number(v)
	default:
		w.Party.take(name, v)
	}
}

func (p *Party) take(name string, v any) {
	switch name {
	case "client":
		p.Client = text(v)
	case "addr":
		p.Addr = text(v)
	case "user":
		p.User = text(v)
	case "proxy":
		p.Proxy = text(v)
	}
}
