package client

// HoldReasons is a set of reasons why a session reads no further command now.
type HoldReasons uint16

// The reasons.
const (
	HoldTask     HoldReasons = 1 << iota // a task runs for it
	HoldOrder                            // some of its requests were redirected: they must arrive first
	HoldPipeline                         // it has too many requests under way
	HoldOutput                           // it does not read its replies
	HoldUpstream                         // the queue of its node is full
	HoldClosing                          // it is being closed
	HoldBlock                            // it waits in a command that blocks
	HoldPause                            // CLIENT PAUSE holds back its next command
	HoldMemory                           // all clients together take too much memory
	// its next command is AUTH, and comes too soon after a wrong password
	HoldLogin
	// its next command is unknown, and the upstream is asked for its command table
	HoldTable
	HoldLong  // a long command is being taken apart, or sent in parts
	HoldRound // this round of the loop has taken long: it reads on in the next one

	// HoldWaiting are the reasons that may last long. The end of the connection is noticed meanwhile.
	HoldWaiting = HoldTask | HoldBlock | HoldPause | HoldLogin
)
