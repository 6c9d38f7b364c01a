package pipe

import "errors"

// errShared is why a large request was not sent over a shared connection. Large requests go over a Private.
var errShared = errors.New("a request of more than 1 MiB is not sent over a connection that clients share")

// errCutLarge is why a large request is not sent again.
var errCutLarge = errors.New("the node closed the connection inside of it, " +
	"as it does above its client-query-buffer-limit")

// largeTries is how often a node may close the connection inside a large request. A server that finds it too
// long does so each time.
const largeTries = 3
