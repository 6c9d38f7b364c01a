package commands

import (
	"maps"
	"time"

	"lockproxy/redlock/locks"
)

// Facts are what INFO tells of the proxy itself.
type Facts struct {
	Version    string // of lockproxy
	Upstream   string // its kind: single, sentinel or cluster
	Addr       string // host:port that it listens on, or the path of a unix socket
	Executable string // path of the program
	ConfigFile string // path of the file with the settings, or ""
	RunID      string // 40 hex digits, others at each start
	Started    time.Time

	MaxClients int
	Pause      Pause         // the pause that is on
	PauseLeft  time.Duration // of it

	Stats
}

// Stats are the numbers that INFO, LOCKCTL STATS and the metrics show.
type Stats struct {
	Clients  int // connected now
	Blocked  int // of them in a blocking command that was sent to a node
	Queued   int // of them in a blocking command that waits for a connection
	Tracking int // of them in CLIENT TRACKING
	Held     int // of them held by CLIENT PAUSE

	ClientsTotal    uint64
	ClientsRejected uint64
	Evicted         uint64 // clients closed because all together took more than MaxMemory
	Memory          int64  // bytes that all clients take,
	MaxMemory       int64  // and may take; 0: any number

	Calls     uint64 // of all commands
	BytesIn   uint64
	BytesOut  uint64
	Redirects map[string]uint64 // requests sent again, by reason
	Locks     locks.Stats
}

// Since returns the Stats with the counters of INFO less those of was. Figures of now, such as the number of
// clients, stay.
func (s Stats) Since(was *Stats) Stats {
	s.ClientsTotal -= was.ClientsTotal
	s.ClientsRejected -= was.ClientsRejected
	s.Evicted -= was.Evicted
	s.Calls -= was.Calls
	s.BytesIn -= was.BytesIn
	s.BytesOut -= was.BytesOut
	s.Redirects = maps.Clone(s.Redirects)
	for why, n := range was.Redirects {
		s.Redirects[why] -= n
	}
	s.Locks = s.Locks.Since(was.Locks)
	return s
}
