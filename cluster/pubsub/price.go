package pubsub

import (
	"fmt"

	"lockproxy/internal/glob"
)

// A node compares what is published with all patterns, and does nothing else meanwhile. Whoever publishes,
// and however: what the patterns of this proxy's clients cost it is bounded here, when they subscribe.
const (
	// CheapPattern is what a pattern may cost for each byte of a name (glob.Price) without being counted. As
	// many patterns cost a server about that much anyway.
	CheapPattern = 16
	// mostDear is what all others may cost together: with the longest name a second of a node.
	mostDear = 16 << 10
)

// countedPrice is what a topic costs beyond what any does. 0 for channels, which a node finds in a table.
func countedPrice(kind Kind, name string) int {
	if kind == Pattern {
		if price := glob.Price([]byte(name)); price > CheapPattern {
			return price
		}
	}
	return 0
}

// afford says that topics of these names cost too much beside those that there are. mu is held. Patterns that
// are subscribed already cost nothing more. The error is for the client, as it stands.
func (s *Subscriptions) afford(kind Kind, names []string) error {
	more := 0
	for _, name := range names {
		if price := countedPrice(kind, name); price > 0 && s.index.all[TopicName{kind, name}] == nil {
			more += price
		}
	}
	if more > 0 && s.price+more > mostDear {
		return fmt.Errorf("ERR a node may have to compare %d bytes of this pattern with each byte of a "+
			"name, and %d of others that clients of this lockproxy have subscribed to, of %d at most",
			more, s.price, mostDear)
	}
	return nil
}
