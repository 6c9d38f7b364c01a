package script

import (
	"lockproxy/commands"
	"lockproxy/commands/merge"
	"lockproxy/internal/resp"
)

// functionStats is FUNCTION STATS. It is asked while functions run, so it goes over connections that they do
// not keep busy.
func functionStats(c *commands.Call) { c.AskAll(c.Raw, commands.Asking{Own: true}, mergeFunctionStats) }

// mergeFunctionStats shows the script of the first node that runs one. The libraries should be the same
// everywhere; if not, those of the node with the most are shown.
var mergeFunctionStats = merge.Maps(func(name string, a *resp.Value, b resp.Value) {
	switch {
	case name == "running_script":
		if a.Null() {
			*a = b
		}
	case resp.IsMap(*a) && resp.IsMap(b): // engines
		merge.Unite(a, b, func(_ string, a *resp.Value, b resp.Value) {
			merge.Unite(a, b, func(_ string, a *resp.Value, b resp.Value) { a.Int = max(a.Int, b.Int) })
		})
	}
})

// killScript is SCRIPT KILL and FUNCTION KILL. They must not wait behind the very script that they are to
// end.
func killScript(c *commands.Call) { c.AskAll(c.Raw, commands.Asking{Own: true}, merge.One) }

// functionLoad is FUNCTION LOAD [REPLACE] code.
func functionLoad(c *commands.Call) {
	c.Server.Scripts().AddLibrary(c.Args[len(c.Args)-1], c.Table)
	c.AskAll(c.Raw, commands.Asking{}, merge.First)
}
