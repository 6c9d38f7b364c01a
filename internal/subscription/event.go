// Package subscription names what happens to a subscription to a channel. It stands below packages
// cluster, which reads the channels, and redlock, which waits for their messages.
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
