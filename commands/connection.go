package commands

// Connection is what a command may know and change of its client's connection, besides what stands in Client.
// Only Select, Login, Monitor and WatchLocks answer the command.
type Connection interface {
	// UpstreamUser is the user of the upstream that the client is, and has the rights of; "": it is none, and
	// may do what the proxy may.
	UpstreamUser() string
	// Select has all later commands of the client work on database n if the upstream has
	// that, and answers the current command: OK, or the upstream's error.
	Select(n int)
	// Login has the later commands of the client run as that user of the upstream, if the upstream accepts
	// the password. It answers with what then returns; refusal is the upstream's error, or nil. Like then of
	// Ask, it may go on.
	Login(user, password string, then func(refusal []byte) []byte)
	// Logout has the later commands run as the proxy's own user again.
	Logout()
	// Monitor shows the client the commands of all clients from now on, and answers with reply.
	Monitor(reply []byte)
	// WatchLocks tells the client what happens to the locks whose names match, from now on. It answers with
	// OK, or why it cannot.
	WatchLocks(match []byte)
	// SetReplies says which commands are answered, from this one on.
	SetReplies(r Replies)
	// Aside runs task on a goroutine of its own, while the client goes on. A drain waits for it.
	Aside(task func())
	// Reset ends whatever state the connection has besides Client.
	Reset()
}
