package redlock

// Caller is the client on whose behalf something is asked. Its commands are answered in their order.
type Caller interface {
	// Buffer returns an empty buffer with room for most requests and answers. It can be used for one of them
	// at a time: until SendHome returns, or until the answer is given.
	Buffer() []byte
	// SendHome sends req, one whole command, to the master of slot. The client's answer is what then makes of
	// the reply. req is copied. resend says that req may be sent again if its reply was lost. While its slot
	// moves, it waits until one node has all of its keys, unless then is a Splitter. lost may be nil.
	SendHome(slot int, req []byte, resend bool, then Exchange, lost Delivery)
	// SendWhole is SendHome for a request that runs a command of the client.
	SendWhole(slot int, req []byte, resend bool, then Exchange)
	// Hold makes later commands of the client wait that are about the lock of that name, until the current
	// one is answered: what SendHome has sent for it may have to wait, or to be followed by more.
	Hold(name string)
	// Await starts a longer request. start must call done once, from any goroutine, perhaps before start
	// returns. The client's answer is what then makes of the reply given to done. lost may be nil.
	Await(start func(done func(reply []byte)), then func(reply []byte) []byte, lost Delivery)
}

// Exchange is a request whose reply has not come yet.
type Exchange interface {
	// Answer turns the reply, which is valid until Answer returns, into the client's answer. It is called
	// once. To send another request instead it returns nil.
	Answer(reply []byte) []byte
}

// ExchangeFunc is an Exchange that is made of a function.
type ExchangeFunc func(reply []byte) []byte

// Answer implements Exchange.
func (f ExchangeFunc) Answer(reply []byte) []byte { return f(reply) }

// Splitter is an Exchange whose request can be put with fewer keys while its slot moves: it gets TRYAGAIN at
// once.
type Splitter interface{ Splits() }

// Repeater is an Exchange that is told if its request is sent again although it may have run.
type Repeater interface{ Repeated() }

// Delivery is an answer on its way to the client.
type Delivery interface {
	// Lost is called if the answer does not reach the client.
	Lost()
	// Arrived is called when the client has most likely read it. Then Lost is not called any more. If the
	// connection ends while that is in doubt, neither is.
	Arrived()
}

// Acquirer is told the outcome of an Acquire.
type Acquirer interface {
	// Acquired returns the client's answer. If ok, the lock is granted. If not, and without an error, others
	// hold it; if a may wait it now stands in the queue: call Wait, or Undo. After an error call Undo, unless
	// Refused says that there is no need. Once a is granted, the engine keeps nothing of it.
	Acquired(g Grant, ok bool, err error) []byte
	Delivery // of that answer
}

// Releaser is told the outcome of a Release.
type Releaser interface {
	// Released returns the client's answer.
	Released(r Released, err error) []byte
}
