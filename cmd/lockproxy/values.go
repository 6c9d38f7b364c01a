package main

import "time"

// usersOnly says that clients are users of the upstream, and nobody before AUTH.
func (v *Values) usersOnly() bool { return v.ClientAuth == "upstream" }

// open says that a client needs no password.
func (v *Values) open() bool { return v.RequirePass == "" && !v.usersOnly() }

// Values are all settings in parsed form. One Values never changes: CONFIG SET
// makes a new one (Config).
type Values struct {
	Listen        []string // TCP addresses and paths of unix sockets
	ProtectedMode bool
	RequirePass   string
	ClientAuth    string // whose users clients are: "proxy" or "upstream"
	TLSCert       string // files; TLSCA set: clients must show a certificate
	TLSKey        string
	TLSCA         string

	ClusterMode     bool
	ClusterAnnounce []string // host:port

	Upstream              []string
	UpstreamUser          string
	UpstreamPassword      string
	UpstreamTLS           bool
	UpstreamTLSCA         string
	UpstreamTLSCert       string
	UpstreamTLSKey        string
	UpstreamTLSServerName string
	SentinelMaster        string
	SentinelUser          string
	SentinelPassword      string
	Dev                   bool

	ConnectTimeout  time.Duration
	UpstreamTimeout time.Duration
	RetryBudget     time.Duration
	TopologyRefresh time.Duration
	ReplicaReads    string
	QueueLimit      int64 // bytes
	OwnConnections  int
	ScriptCache     int // scripts
	RefusedCommands []string

	LockPrefix     string
	LockLease      time.Duration
	LockMaxLease   time.Duration
	LockMaxWait    time.Duration
	LockMaxQueue   int // waiters of one lock
	LockMaxReaders int // readers of one lock
	LockMaxKept    int // holds
	LockSync       int // replicas

	LockSyncTimeout   time.Duration
	LockFailoverGrace time.Duration // 0: off
	LockStatsNames    int           // locks; 0: off

	Redlock            []string // addresses; none: off
	RedlockPrefix      []string
	RedlockNodeTimeout time.Duration
	RedlockMaxLease    time.Duration
	RedlockUser        string
	RedlockPassword    string

	MaxClients       int
	Timeout          time.Duration // 0: never
	TCPKeepAlive     time.Duration // 0: off
	AuthTimeout      time.Duration // 0: never
	MaxBulk          int64         // bytes
	MaxMultiBulk     int           // arguments
	MaxInline        int64         // bytes
	QueryBufferLimit int64         // bytes
	OutputLimits     OutputLimits
	MaxMemory        MemoryShare
	MaxPipeline      int // commands in flight

	Admin        string   // "": none
	AdminHosts   []string // names beside localhost and its own
	AdminPprof   bool
	Loops        int // 0: from the cores
	DrainTimeout time.Duration
	LogLevel     string
	LogFormat    string
	ConfigFile   string
}
