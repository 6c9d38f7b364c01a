package rig

// OpenRedis lets a server take every command.
var OpenRedis = []string{"--enable-protected-configs", "yes", "--enable-module-command", "yes"}

// StartOpenCluster starts a cluster of such servers.
func StartOpenCluster(l Life, masters int, args ...string) string {
	l.Helper()
	return StartCluster(l, masters, 0, append(args, OpenRedis...)...).Addrs()
}
