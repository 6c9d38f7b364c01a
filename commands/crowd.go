package commands

import "time"

// Crowd is what a command may do with the clients of the proxy, of which each belongs to one of
// several loops. Of the methods without a result each answers the command, like those of Actions,
// and has the commands that follow wait until then.
type Crowd interface {
	// Self is the client of this command.
	Self() *Peer
	// Everybody has visit look at every client, or if ids is not nil at those that have these
	// IDs, each on the loop that it belongs to, some of them at the same time. The answer is what then makes, on
	// the loop of this command, of what visit has returned besides nil, in the order of the IDs.
	Everybody(ids []int64, visit func(p *Peer) []byte, then func(seen []Seen) []byte)
	// PauseClients holds commands back until a time, on all loops, and answers with reply. A pause
	// that is there already is made longer and wider only.
	PauseClients(until time.Time, kind Pause, reply []byte)
	// UnpauseClients ends the pause and answers with reply.
	UnpauseClients(reply []byte)
	// StartMonitor shows the client the commands of all clients from now on, and answers with reply.
	StartMonitor(reply []byte)
	// SetReplies says which commands are answered, from this one on. It does not answer.
	SetReplies(r Replies)
	// ResetState ends whatever state the connection has besides Client. It does not answer.
	ResetState()
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
