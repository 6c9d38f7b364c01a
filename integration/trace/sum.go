package trace

import "time"

// Sum is what many rounds have come to, as a line of JSON: what one test of traces tells the page on
// resilience. A later line of the same Test, Server and Seed replaces an earlier one.
type Sum struct {
	Test       string         `json:"test"`
	Server     string         `json:"server"` // one of rig.Products
	Seed       uint64         `json:"seed"`
	When       time.Time      `json:"when"`
	Took       float64        `json:"took"` // seconds
	Rounds     int            `json:"rounds"`
	Ops        int            `json:"ops"`
	Unanswered int            `json:"unanswered"`
	Grants     int            `json:"grants"`
	Of         map[string]int `json:"of"`         // operations by verb, and grants by what they ask for
	Faults     map[string]int `json:"faults"`     // by name
	Exceptions map[string]int `json:"exceptions"` // by name
	Violations int            `json:"violations"`
}

// Add adds one up. Test, Server, Seed and When stay.
func (s *Sum) Add(one Sum) {
	s.Took += one.Took
	s.Rounds += one.Rounds
	s.Ops += one.Ops
	s.Unanswered += one.Unanswered
	s.Grants += one.Grants
	s.Violations += one.Violations
	s.Of = addCounts(s.Of, one.Of)
	s.Faults = addCounts(s.Faults, one.Faults)
	s.Exceptions = addCounts(s.Exceptions, one.Exceptions)
}

func addCounts(sum, one map[string]int) map[string]int {
	if sum == nil {
		sum = map[string]int{}
	}
	for name, n := range one {
		sum[name] += n
	}
	return sum
}
