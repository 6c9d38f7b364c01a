package client

// Hold is a set of reasons why a session reads no further command now.
type Hold uint16

// The reasons.
const (
	HoldTask     Hold = 1 << iota // a task runs for it
	HoldOrder                     // requests of it were redirected: let them arrive first
	HoldPipeline                  // too many requests on their way
	HoldOutput                    // it does not read its replies
	HoldUpstream                  // its node does not take more
	HoldClosing                   // it is being closed
	HoldBlock                     // it stays in a command that blocks
	HoldPause                     // CLIENT PAUSE holds its next command back
	HoldMemory                    // all clients together take too much
	HoldLogin                     // its next command is AUTH, and comes too soon after a wrong password
	HoldTable                     // its next command is unknown, and the upstream is asked for its commands
	HoldLong                      // a long command of it is being taken apart, or sent in parts
	HoldRound                     // the round of the loop has taken long: it reads on in the next one

	// HoldWaiting are those under which the end of the connection is noticed behind input
	// that was not read.
	HoldWaiting = HoldTask | HoldBlock | HoldPause | HoldLogin
)
