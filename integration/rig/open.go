package rig

// OpenRedis lets a server take every command.
var OpenRedis = []string{"--enable-protected-configs", "yes", "--enable-module-command", "yes"}

// StartOpenCluster starts one of such servers; its nodes are not to vote out one that a
// test blocks for seconds.
func StartOpenCluster(l Life, masters int, args ...string) string {
	l.Helper()
	args = append([]string{"--cluster-node-timeout", "20000"}, args...)
	return StartCluster(l, masters, 0, append(args, OpenRedis...)...).Addrs()
}
