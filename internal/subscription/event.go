// Package subscription names what happens to a subscription to a channel. It stands below packages cluster,
// which reads the channels, and redlock, which waits for their messages, so that neither need know the other.
//
//	Live --> Message, Message ... --> Lost --> Live --> Message ...
//
// Whoever was told Lost may have missed messages, and looks for himself what they would have said. A
// subscription begins live; that is not told.
package subscription

// EventKind is what happens to a subscription.
type EventKind uint8

// The kinds of events.
const (
	Message EventKind = iota // somebody published; the only kind with a payload
	Lost                     // from now on messages may be missed
	Live                     // after Lost: the subscription stands again
)

// Event is one thing that happens to a subscription.
type Event struct {
	Kind    EventKind
	Payload []byte
}
