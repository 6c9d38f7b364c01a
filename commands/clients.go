package commands

import "time"

// Clients is what a command may do with the clients of the proxy, each of which belongs to one of several
// loops. Each method without a result answers the command, like those of Actions; the commands behind it
// wait until then.
type Clients interface {
	// Self is the client of this command.
	Self() *Peer
	// Connected says whether there is a client of that id.
	Connected(id int64) bool
	// Each calls visit for every client, or for those with the given ids, on the loop that a client belongs
	// to; several loops at the same time. then runs on the loop of this command. It makes the answer of the
	// results of visit that are not nil, in the order of the ids.
	Each(ids []int64, visit func(p *Peer) []byte, then func(seen []SeenClient) []byte)
	// Unblock ends the wait of the client with that id, on whichever loop it is: as if its time were over, or
	// withError with an error. It answers the command with 1, or with 0 if that client is not blocked.
	Unblock(id int64, withError bool)
	// Pause holds commands back until a time, on all loops, and answers with reply. It never shortens or
	// narrows a pause that is on already.
	Pause(until time.Time, kind Pause, reply []byte)
	// Unpause ends the pause and answers with reply.
	Unpause(reply []byte)
}

// SeenClient is what visit said of a client.
type SeenClient struct {
	ID   int64
	Text []byte
}

// Peer is a client as commands see it, on the loop that it belongs to.
type Peer struct {
	*Client
	FD      int           // descriptor of its connection, -1: it has none
	Idle    time.Duration // since something was read from it or written to it
	Command string        // the last one, "client|list"; "": none yet, or an unknown one
	Waits   bool          // in a command, or for the end of a pause
	Closing bool          // when what was asked for is answered

	Query     int  // bytes that were read and not used yet
	QueryRoom int  // spare bytes of that buffer
	Args      int  // bytes of the arguments of the command that runs
	Replies   int  // bytes that wait to be written, or for their turn
	ReplyRoom int  // memory for those
	Stalled   bool // it does not read
	Memory    int  // all of it

	// Since it connected: bytes read from it and written to it, and commands that began.
	BytesIn, BytesOut, Commands uint64

	Close bool // set by visit: close the connection; that of the command itself once it is answered
}

// Pause is what CLIENT PAUSE holds back.
type Pause uint8

// The pauses, the wider ones above.
const (
	PauseNone   Pause = iota
	PauseWrites       // commands that may write or reach the replicas
	PauseAll
)

// Replies is which commands are answered.
type Replies uint8

// What CLIENT REPLY sets.
const (
	RepliesOn Replies = iota
	RepliesOff
	RepliesSkip // the next one is not
)
