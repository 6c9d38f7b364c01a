package commands

import "lockproxy/internal/resp"

// readOnly is READONLY, and readWrite READWRITE: the client's reads may go to replicas, or may not. A Redis
// without a cluster knows neither; looking like one the proxy does if it reads from replicas without being
// asked.
func readOnly(c *Call) { setReadOnly(c, 1) }

func readWrite(c *Call) { setReadOnly(c, -1) }

func setReadOnly(c *Call, to int8) {
	reads := c.Server.ReplicaReads()
	if !c.Server.ClusterMode() && reads != ReadsPreferred && reads != ReadsAnywhere {
		c.Reply(errNoCluster)
		return
	}
	if reads.Wanted(to) {
		c.Server.WatchReplicas()
	}
	c.Client.ReadOnly = to
	c.Reply(resp.OK)
}
