// Package subscription names what happens to a subscription to a channel. It stands below packages cluster,
// which reads the channels, and redlock, which waits for their messages, so that neither need know the other.
//
//	(Refused, Refused ... -->) Live --> Message, Message ... --> Lost --> Live --> Message ...
//
// A subscription begins lost, and is made however long that takes. Whoever is told Live may have missed
// messages until then, and looks for himself what they would have said.
package subscription

// EventKind is what happens to a subscription.
type EventKind uint8

// The kinds of events.
const (
	Message EventKind = iota // somebody published; the only kind with a payload
	Live                     // the subscription stands
	Lost                     // after Live: from now on messages may be missed
	Refused                  // while it is lost: a node refuses it, and will unless somebody changes that
)

// Change is one thing that happens to a subscription. All who are told share Payload: nobody writes to it.
type Change struct {
	Kind    EventKind
	Payload []byte // of Message
	Err     error  // of Refused
}
