package commands

// OwnStats are the counters of what the proxy answered without asking a node. Safe for
// concurrent use.
type OwnStats interface {
	// Commands are the commands that it answered, in the order of their names.
	Commands() []OwnCommand
	// Errors are the error replies that it made, by their first words.
	Errors() map[string]uint64
	// Reset has all counters that INFO shows begin anew.
	Reset()
}

// OwnCommand is how often the proxy answered a command.
type OwnCommand struct {
	Name                    string // as in COMMAND
	Calls, Rejected, Failed uint64 // Calls does not include Rejected
	Micros                  uint64 // that the Calls took
}
