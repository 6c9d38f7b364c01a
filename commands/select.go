package commands

import (
	"math"
	"strconv"

	"lockproxy/internal/resp"
)

// selectDB is SELECT index. A cluster has database 0 only.
func selectDB(c *Call) {
	n, ok := integer(c.Args[1])
	switch {
	case !ok:
		c.Reply(resp.ErrInteger)
	case n < math.MinInt32 || n > math.MaxInt32:
		c.Reply(resp.ErrorLine("ERR value is out of range, value must between %d and %d", math.MinInt32, math.MaxInt32))
	case n != 0 && c.oneDatabase():
		c.Reply(resp.ErrorLine("ERR SELECT is not allowed in cluster mode"))
	case n < 0:
		c.Reply(resp.ErrorLine("ERR DB index is out of range"))
	default:
		c.Connection().Select(int(n))
	}
}

// oneDatabase says that there is database 0 and no other, or that the client is to see it so.
func (c *Call) oneDatabase() bool { return c.Server.Clustered() || c.Server.ClusterMode() }

// integer reads a number as Redis does: no sign but a minus, no zeros in front, 64 bits.
func integer(b []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == string(b)
}
