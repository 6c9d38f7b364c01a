package integration

// openRedis lets a server take every command.
var openRedis = []string{"--enable-protected-configs", "yes", "--enable-module-command", "yes"}

// startOpenCluster starts one of such servers; its nodes are not to vote out one that a
// test blocks for seconds.
func startOpenCluster(l life, masters int, args ...string) string {
	l.Helper()
	args = append([]string{"--cluster-node-timeout", "20000"}, args...)
	return startCluster(l, masters, 0, append(args, openRedis...)...).addrs()
}
