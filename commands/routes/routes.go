// Package routes has the whole routing table: the rules that stand beside the code of commands, and those
// that need no code, in plain.go. It is the only place that knows all packages of commands.
//
//	connection.Rows, server.Rows ... plain --+
//	COMMAND of the upstream -----------------+--> NewTable --> commands.Table
//	lock.Verbs ------------------------------+
//
// A command without a rule goes by its keys, which the upstream's COMMAND tells. So a rule is needed only for
// what concerns several nodes, the proxy or the connection:
//
//	{Name: "dbsize", Route: commands.AllNodes, Merge: merge.Sum, Flags: commands.ReadOnly}
//
// commands.Row says what the fields of a rule mean. Begin with plain.go.
package routes

import (
	"slices"

	"lockproxy/commands"
	"lockproxy/commands/clusterview"
	"lockproxy/commands/connection"
	"lockproxy/commands/pubsub"
	"lockproxy/commands/scan"
	"lockproxy/commands/script"
	"lockproxy/commands/server"
)

// all has all rules. A new package of commands is added here.
var all = slices.Concat(
	connection.Rows, server.Rows, clusterview.Rows, scan.Rows, script.Rows, pubsub.Rows, plain,
)

// NewTable makes the Table of all rules: see commands.NewTable.
func NewTable(command []byte, verbs []*commands.Command, refused ...string) (*commands.Table, error) {
	return commands.NewTable(command, all, verbs, refused...)
}

// RefusedByDefault returns the commands that do harm through a proxy, or that concern one server: those whose
// rule gives a reason although it has a route for them.
func RefusedByDefault() []string {
	var names []string
	for i := range all {
		if r := &all[i]; r.Why != "" && r.Route != commands.Refused {
			names = append(names, r.Name)
		}
	}
	return names
}
