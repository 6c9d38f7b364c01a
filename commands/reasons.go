package commands

// Reasons for refusing a command.
const (
	oneServer      = ": it acts on one server; connect to that server for it"
	forReplicas    = ": it is for replicas; connect to the server for it"
	stopsServers   = ": it stops the servers of the upstream; do that at each of them"
	changesMasters = ": it changes who is a master; do that at the servers"
	movesKeys      = ": the server, not lockproxy, would connect to the address that it names"
	loadsModules   = ": it has each server of the upstream load what lies in its own files; do that at each of them"
	amongServers   = ": it is for servers among themselves"
	standsStill    = ": no master would answer anybody until all its data is on disk; BGSAVE does it in the background"
)
