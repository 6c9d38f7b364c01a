// Package routes is the whole table of routing: the rules that stand beside the code of commands, and those
// that need no code, in plain.go. It is the one place that knows all packages of commands.
//
//	connection.Rows, server.Rows ... plain --+
//	COMMAND of the upstream -----------------+--> NewTable --> commands.Table
//	lock.Verbs ------------------------------+
//
// A command that no rule names goes by its keys, as the upstream's COMMAND tells them. So a rule is needed
// only for what concerns several nodes, the proxy or the connection:
//
//	{Name: "dbsize", Route: commands.AllNodes, Merge: merge.Sum, Flags: commands.ReadOnly}
//
// What the fields of a rule mean: commands.Row. Begin reading at plain.go.
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

// all are all rules of routing. A package of commands is added here.
var all = slices.Concat(
	connection.Rows, server.Rows, clusterview.Rows, scan.Rows, script.Rows, pubsub.Rows, plain,
)

// NewTable makes a Table of all rules of routing: see commands.NewTable.
func NewTable(command []byte, verbs []*commands.Command, refused ...string) (*commands.Table, error) {
	return commands.NewTable(command, all, verbs, refused...)
}

// RefusedByDefault are the commands that do harm through a proxy, or mean one server: those whose row gives a
// reason although it has a way for them.
func RefusedByDefault() []string {
	var names []string
	for i := range all {
		if r := &all[i]; r.Why != "" && r.Route != commands.Refused {
			names = append(names, r.Name)
		}
	}
	return names
}
