package connection

import (
	"math"
	"strconv"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// selectDB is SELECT index. A cluster may have one database or several; its nodes say how many. How many one
// Redis has is its own to say: the index is not checked here beyond what Redis judges without looking at its
// settings. Messages are those of Redis.
func selectDB(c *commands.Call) {
	n, ok := resp.Integer(c.Args[1])
	switch {
	case !ok:
		c.Reply(resp.ErrInteger)
	case n < math.MinInt32 || n > math.MaxInt32:
		c.Reply(resp.ErrorLine("ERR value is out of range, value must between %d and %d", math.MinInt32,
			math.MaxInt32))
	case n != 0 && c.Server.ClusterMode() && !c.Server.Clustered():
		c.Reply(resp.ErrorLine("ERR SELECT is not allowed in cluster mode"))
	case n < 0 && !c.Server.Clustered():
		c.Reply(resp.ErrorLine("ERR DB index is out of range"))
	default:
		c.Connection().Select(int(n))
	}
}

// selects is for a SELECT in a transaction. What is no index changes nothing, and the node gives the error.
func selects(args [][]byte) commands.Queued {
	if len(args) == 2 {
		if n, err := strconv.Atoi(string(args[1])); err == nil {
			return commands.Queued{DB: n}
		}
	}
	return commands.Queued{DB: -1}
}
