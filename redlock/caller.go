package redlock

// Caller is the client that asks for something. It answers its commands in their order.
type Caller interface {
	// Room is where a request for SendHome, or an answer, may be appended: empty, with room for most of them.
	// It is for one at a time, until SendHome returns or the answer is given.
	Room() []byte
	// SendHome sends req, one whole command that is copied, to the master of slot and answers with what then
	// makes of the reply. resend: req may be sent again when its reply was lost. lost may be nil.
	SendHome(slot int, req []byte, resend bool, then Exchange, lost Delivery)
	// Await has start ask for something, which calls done once, maybe before it returns and on any goroutine,
	// and answers with what then makes of what done was given. lost may be nil.
	Await(start func(done func(reply []byte)), then func(reply []byte) []byte, lost Delivery)
}

// Exchange is a request that is on its way.
type Exchange interface {
	// Answer makes the client's answer of the reply, which is valid until it returns. It is called once. It
	// may send on instead and return nil.
	Answer(reply []byte) []byte
}

// Delivery is an answer on its way to the client.
type Delivery interface {
	// Lost is called when it does not reach the client.
	Lost()
}

// Acquirer is told how an Acquire goes.
type Acquirer interface {
	// Acquired makes the client's answer. ok: the lock is granted. Not ok and no error: others hold it, and
	// if a may wait it stands in the queue: call Wait, or Undo. After an error call Undo, unless Refused says
	// that there is no need.
	Acquired(g Grant, ok bool, err error) []byte
	Delivery // of that answer
}

// Releaser is told how a Release went.
type Releaser interface {
	// Released makes the client's answer.
	Released(r Released, err error) []byte
}
