package redlock

// Guard runs a command at the Redis of a lock if a hold goes on: that of Token, or that with Fence.
type Guard struct {
	Name    string
	Token   string   // "": whoever has Fence
	Fence   int64    // of the grant that is meant; 0: whatever Token holds
	Keys    [][]byte // of the command
	Command [][]byte
	DB      int  // the database of the command
	Again   bool // the command only reads, so it may be sent again
}

// NotHeld is what the reply to a Guard begins with if there is no such hold. The command has not run then.
const NotHeld = "-NOTHELD "
