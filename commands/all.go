package commands

import "slices"

// rows are all rules of routing.
var rows = slices.Concat(
	rowsOfConnection, rowsOfServer, rowsOfClusterview, rowsOfScan, rowsOfScript, rowsOfPubsub, rowsOfRoutes,
)

// NewTableOf makes a Table of all rules of routing: see commands.NewTable.
func NewTableOf(command []byte, verbs []*Command, refused ...string) (*Table, error) {
	return NewTable(command, rows, verbs, refused...)
}

// RefusedByDefault are the commands that do harm through a proxy, or mean one server: those whose row gives a
// reason although it has a way for them.
func RefusedByDefault() []string {
	var names []string
	for i := range rows {
		if r := &rows[i]; r.Why != "" && r.Route != Refused {
			names = append(names, r.Name)
		}
	}
	return names
}
