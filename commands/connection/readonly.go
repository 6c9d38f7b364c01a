package connection

import (
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// readOnly is READONLY, and readWrite READWRITE: the client's reads may go to replicas, or may not. A Redis
// without a cluster knows neither, but for Valkey; looking like one the proxy does if it reads from replicas
// without being asked.
func readOnly(c *commands.Call) { setReadOnly(c, 1) }

func readWrite(c *commands.Call) { setReadOnly(c, -1) }

// setReadOnly notes what the client wants. It has no effect on what is answered already, and none at all if
// the proxy never reads from replicas (ReadsAtMaster).
func setReadOnly(c *commands.Call, to int8) {
	reads := c.Server.ReplicaReads()
	known := c.Server.ClusterMode() || c.Server.Upstream().IsValkey(8, 0)
	if !known && reads.Asked() {
		c.Reply(commands.ErrNoCluster)
		return
	}
	// Nobody looks at the replicas before somebody is to read from them.
	if reads.Wanted(to) {
		c.Server.WatchReplicas()
	}
	c.Client.ReadOnly = to
	c.Reply(resp.OK)
}
