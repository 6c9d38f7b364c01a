package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockproxy/internal/resp"
)

// Server is what a server says of itself. Of the zero value nothing is known.
type Server struct {
	Product string // "redis" or "valkey"
	Version string // of Redis, "7.0.15": Valkey says which one it is compatible with
	Release string // of the product itself, "9.1.2"; it is the Version where the product is Redis
	Mode    string // "standalone", "cluster" or "sentinel"
	RunID   string // another one after each start
	Zone    string // the availability zone in which it says it runs

	ShardChannels bool // it knows SSUBSCRIBE and SPUBLISH
	// It is no Redis, and tells its clients that it is (extended-redis-compatibility of Valkey).
	AsRedis bool
	// DeleteIf is its command that deletes a key if that has a certain value: DELIFEQ of Valkey 9, DELEX of
	// Redis 8.4, or "".
	DeleteIf string
}

// ServerQuestions are the commands whose replies ServerOf reads, in that order.
var ServerQuestions = [][]any{{"INFO", "server"}, {"HELLO", "2"},
	{"COMMAND", "INFO", "ssubscribe", "delifeq", "delex"}}

// ServerOf reads the replies to ServerQuestions. Missing replies and errors tell nothing: INFO may be
// forbidden, and HELLO tells nearly as much.
func ServerOf(replies ...resp.Value) Server {
	var v [3]resp.Value
	copy(v[:], replies)
	info, hello := v[0], Pairs(v[1])
	s := Server{
		Product: cmp.Or(Field(info, "server_name"), "redis"),
		Version: Field(info, "redis_version"),
		Mode:    cmp.Or(Field(info, "redis_mode"), Field(info, "server_mode"), hello["mode"]),
		RunID:   Field(info, "run_id"),
		Zone:    Field(info, "availability_zone"),
	}
	s.Release = cmp.Or(Field(info, s.Product+"_version"), s.Version)
	switch hello["server"] {
	case "redis": // Valkey says so too if extended-redis-compatibility is on
		s.Version = cmp.Or(s.Version, hello["version"])
		s.Release = cmp.Or(s.Release, s.Version)
		s.AsRedis = s.Product != "redis"
	case "valkey":
		s.Product, s.Release = "valkey", hello["version"]
		s.Version = cmp.Or(s.Version, "7.2.4") // all releases say so
	}
	for _, command := range v[2].Elems { // null where the server does not know it
		if len(command.Elems) == 0 {
			continue
		}
		switch string(command.Elems[0].Str) {
		case "ssubscribe":
			s.ShardChannels = true
		case "delifeq":
			s.DeleteIf = "DELIFEQ"
		case "delex":
			s.DeleteIf = cmp.Or(s.DeleteIf, "DELEX")
		}
	}
	return s
}

// Unsuited is why a server that answers INFO so cannot be an upstream; nil: it may be one. A lockproxy behind
// a lockproxy would wait for itself if it is the same one.
func Unsuited(info resp.Value) error {
	if Field(info, "lockproxy_version") != "" {
		return errNoRedis
	}
	return nil
}

const errNoRedis = Refusal("a lockproxy answers there, and no Redis: name the nodes that are behind it")

// mostSaying is how many bytes of an error that a node has said are repeated.
const mostSaying = 512

// Said is an error that a node has said. A lockproxy without an upstream, which may be this one, says what it
// has heard itself, so its words would grow each time.
func Said(text string) error {
	switch {
	case strings.HasPrefix(text, "LOADING lockproxy "):
		return errNoRedis
	// Redis repeats what it was sent, and a script may say anything.
	case len(text) > mostSaying:
		text = text[:mostSaying] + "..."
	}
	return errors.New(text)
}

// AtLeast says that the server is that version of Redis, or a newer one, or compatible with it.
func (s Server) AtLeast(major, minor int) bool {
	v := numbers(s.Version)
	return v[0] > major || v[0] == major && v[1] >= minor
}

// IsValkey says that the server is that release of Valkey or a newer one.
func (s Server) IsValkey(major, minor int) bool {
	v := numbers(s.Release)
	return s.Product == "valkey" && (v[0] > major || v[0] == major && v[1] >= minor)
}

// With is what is true of both servers: product and version are those of the older one. A server that does
// not tell its version does not count.
func (s Server) With(o Server) Server {
	switch {
	case s.Version == "":
		s = o
	case o.Version == "":
		o = s
	}
	both := s
	if older(o, s) {
		both = o
	}
	// Only a command that both have can be used, whichever of them a request goes to.
	deleteIf := s.DeleteIf
	if o.DeleteIf != deleteIf {
		deleteIf = ""
	}
	return Server{Product: both.Product, Version: both.Version, Release: both.Release,
		ShardChannels: s.ShardChannels && o.ShardChannels, AsRedis: both.AsRedis, DeleteIf: deleteIf}
}

// older says that a is older than b. Versions of Redis count first, since that is what commands depend on.
func older(a, b Server) bool {
	x, y := numbers(a.Version), numbers(b.Version)
	if x == y {
		x, y = numbers(a.Release), numbers(b.Release)
	}
	return slices.Compare(x[:], y[:]) < 0
}

// numbers are 7, 0 and 15 of "7.0.15", and 0 for what is not there. Of "7.2-rc1" they are 7, 2 and 0.
func numbers(version string) (n [3]int) {
	fmt.Sscanf(version, "%d.%d.%d", &n[0], &n[1], &n[2])
	return n
}

// Field is the value of "name:value" in a reply of lines, as INFO and CLUSTER INFO give it. The first one
// counts; "" if there is none, or v is an error.
func Field(v resp.Value, name string) string {
	for line := range bytes.Lines(v.Str) {
		if key, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte(":")); ok && string(key) == name {
			return string(value)
		}
	}
	return ""
}

// Pairs reads a map, which RESP2 gives as names and values in turn.
func Pairs(v resp.Value) map[string]string {
	m := make(map[string]string, len(v.Elems)/2)
	for k := 0; k+1 < len(v.Elems); k += 2 {
		m[string(v.Elems[k].Str)] = string(v.Elems[k+1].Str)
	}
	return m
}
