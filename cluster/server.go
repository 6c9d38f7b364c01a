package cluster

import (
	"bytes"
	"cmp"

	"lockproxy/internal/resp"
)

// Server is what a server says of itself.
type Server struct {
	Product string // "redis" or "valkey"
	Version string // of Redis, "7.0.15": Valkey says which one it is compatible with; "": it does not tell
	Mode    string // "standalone", "cluster" or "sentinel"; "": it does not tell
	RunID   string // another one after each start
}

// ServerOf reads a reply to INFO server.
func ServerOf(info resp.Value) Server {
	return Server{
		Product: cmp.Or(Field(info, "server_name"), "redis"),
		Version: Field(info, "redis_version"),
		Mode:    cmp.Or(Field(info, "redis_mode"), Field(info, "server_mode")), // the name since Valkey 8
		RunID:   Field(info, "run_id"),
	}
}

// Field is the value of "name:value" in a reply of lines, as INFO and CLUSTER INFO
// give it.
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
