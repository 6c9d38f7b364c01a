package proxy

import "errors"

// Errors that clients see.
var (
	errNoMasters = errors.New("CLUSTERDOWN The upstream has no master")
)
