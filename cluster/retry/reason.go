package retry

// Reason is why a request was sent more than once.
type Reason int

// The reasons.
const (
	Moved Reason = iota
	Ask
	TryAgain
	ClusterDown
	Loading
	MasterDown
	ReadOnly
	NoScript // NOSCRIPT, healed
	Loop     // too many redirects in a row
	Reasons
)

// String is the reason as a metric label.
func (r Reason) String() string {
	return [...]string{
		"moved", "ask", "tryagain", "clusterdown", "loading", "masterdown", "readonly", "noscript", "loop",
	}[r]
}
