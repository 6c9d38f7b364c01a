package cluster

// Limits are what the masters take of one client. 0: they did not tell.
type Limits struct {
	Bulk   int // bytes of one argument: the lowest proto-max-bulk-len
	Buffer int // bytes of unread input, so of one argument too: the lowest client-query-buffer-limit
}
