// Package resp frames the Redis protocol, RESP2 and RESP3, without decoding it.
//
// It is the lowest floor of lockproxy and knows nothing of Redis commands. Two
// state machines stand here, one for each direction of the proxy:
//
//	client bytes --> InputGuard.Next  --> whole, strictly checked commands
//	node bytes   --> Framer.Next --> where one reply ends, however it is nested
//
// Neither copies what it frames: both return lengths into the caller's buffer.
// Split cuts a command into its arguments, Parse decodes a reply for the few
// places that look into one, and the Append functions make replies and commands.
package resp
