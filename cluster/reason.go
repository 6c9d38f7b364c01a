package cluster

// Redirect is why a request was sent more than once.
type Redirect int

// The reasons.
const (
	MovedRedirect Redirect = iota
	AskRedirect
	TryAgainRedirect
	ClusterDownRedirect
	LoadingRedirect
	MasterDownRedirect
	ReadOnlyRedirect
	ScriptRedirect // NOSCRIPT, healed
	LoopRedirect   // too many redirects in a row
	redirects
)

// String is the reason as a metric label.
func (r Redirect) String() string {
	return [...]string{"moved", "ask", "tryagain", "clusterdown", "loading", "masterdown", "readonly", "noscript", "loop"}[r]
}
