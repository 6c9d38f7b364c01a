package locks

import (
	"reflect"
	"strings"
)

// Lock is one lock as LOCKCTL LIST and LOCKCTL INFO tell it; its fields have the names that they have there.
// Times are in ms. JSON has these names, too, so they stay.
type Lock struct {
	Name    string        `json:"name"`
	State   string        `json:"state"` // free, read, write, permits or resting
	Fence   int64         `json:"fence"`
	Holders []ShownHolder `json:"holders"`
	Waiters int64         `json:"waiters"`
	Used    int64         `json:"used,omitempty"` // permits, Of that many
	Of      int64         `json:"of,omitempty"`
	Key     string        `json:"key"`
	Waiting []ShownWaiter `json:"waiting"`        // the first of the waiters
	Rest    int64         `json:"rest,omitempty"` // for how long it rests
}

// ShownClient is a client that holds a lock, or waits for it. Its fields are empty if it is not known.
type ShownClient struct {
	Client string `json:"client"` // the name that it has given itself
	Addr   string `json:"addr"`
	User   string `json:"user"`
	Proxy  string `json:"proxy"`
}

// ShownHolder is one hold. Fields of newer proxies are zero with an older one.
type ShownHolder struct {
	Token string `json:"token"` // its digest
	Mode  string `json:"mode"`
	TTL   int64  `json:"ttl"`
	Count int64  `json:"count"`
	Fence int64  `json:"fence"`
	Age   int64  `json:"age"`
	Meta  string `json:"meta"`
	Kept  int64  `json:"kept"`
	ShownClient
	Since  int64 `json:"since"` // Unix time
	Waited int64 `json:"waited"`
}

// ShownWaiter is one that waits.
type ShownWaiter struct {
	Mode string `json:"mode"`
	ShownClient
	Waited int64 `json:"waited"`
}

// readLock makes a Lock of what the proxy has answered. What the reply lacks is zero, and what it has besides
// is left out: the proxy may be older or newer.
func readLock(reply any) (l Lock) {
	fillFields(reflect.ValueOf(&l).Elem(), reply)
	return l
}

// fillFields sets the fields of s to what a map says that came as names and values in turn. What has another
// name is left out.
func fillFields(s reflect.Value, reply any) {
	fields := reflect.VisibleFields(s.Type())
	pairs, _ := reply.([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		for _, f := range fields {
			// the names of JSON are those of LOCKCTL
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && name == pairs[i] {
				setField(s.FieldByIndex(f.Index), pairs[i+1])
			}
		}
	}
}

// setField sets one field. What is of another kind than expected counts as nothing. A proxy of another
// version may answer so.
func setField(field reflect.Value, to any) {
	switch field.Kind() {
	case reflect.String:
		text, _ := to.(string)
		field.SetString(text)
	case reflect.Int64:
		n, _ := to.(int64)
		field.SetInt(n)
	case reflect.Slice:
		all, _ := to.([]any)
		field.Set(reflect.MakeSlice(field.Type(), len(all), len(all)))
		for i, one := range all {
			fillFields(field.Index(i), one)
		}
	}
}
