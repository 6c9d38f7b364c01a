package commands

import "time"

// Clients is what a command may do with the clients of the proxy, of which each belongs to one of several
// loops. Of the methods without a result each answers the command, like those of Actions, and has the
// commands that follow wait until then.
type Clients interface {
	// Self is the client of this command.
	Self() *Peer
	// Connected says whether there is a client of that id.
	Connected(id int64) bool
	// Each has visit look at every client, or if ids is not nil at those that have these IDs, each on the
	// loop that it belongs to, some of them at the same time. The answer is what then makes, on the loop of
	// this command, of what visit has returned besides nil, in the order of the IDs.
	Each(ids []int64, visit func(p *Peer) []byte, then func(seen []Seen) []byte)
	// Unblock ends the wait of the client with that id, on whichever loop it is: as if its time were over, or
	// withError with an error. It answers the command with 1, or with 0 if that client is not blocked.
	Unblock(id int64, withError bool)
	// Pause holds commands back until a time, on all loops, and answers with reply. A pause
	// that is there already is made longer and wider only.
	Pause(until time.Time, kind Pause, reply []byte)
	// Unpause ends the pause and answers with reply.
	Unpause(reply []byte)
}

// Seen is what visit said of a client.
type Seen struct {
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

	Query     int  // bytes that came and are not used up
	QueryRoom int  // for so many more there is memory
	Args      int  // bytes of the arguments of the command that runs
	Replies   int  // bytes that wait to be written, or for their turn
	ReplyRoom int  // memory for them
	Stalled   bool // it does not read
	Memory    int  // all of it

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
