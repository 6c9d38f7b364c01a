package commands

// Transactions is what MULTI and the other commands of transactions ask of the session. Each method answers
// the client.
type Transactions interface {
	// Multi is MULTI.
	Multi()
	// Exec is EXEC.
	Exec()
	// Discard is DISCARD.
	Discard()
	// Watch is WATCH.
	Watch()
	// Unwatch is UNWATCH outside MULTI.
	Unwatch()
}

// Transaction is the state of a client's MULTI. The zero value: there is none.
type Transaction struct {
	Open   bool // between MULTI and EXEC
	Dirty  bool // EXEC will run nothing: a command was refused
	Voided bool // EXEC will be Null: it is not known whether a watched key has changed
	Writes bool // a queued command may write
	Queued int  // commands that wait for EXEC
	Bytes  int  // of them
	Watch  int  // keys that WATCH was given; one that was given twice counts twice
}

// Multi is the field of CLIENT LIST: how many commands are queued, -1 outside MULTI.
func (t Transaction) Multi() int {
	if !t.Open {
		return -1
	}
	return t.Queued
}
