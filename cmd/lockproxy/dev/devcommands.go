package dev

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/tidwall/redcon"

	"lockproxy/internal/resp"
)

// Untold are commands that the Redis of --dev has, but that its COMMAND, the one of Redis 5, leaves out:
// name, arity, flags, first key, last key and step. The proxy serves only what COMMAND lists.
const Untold = `
blmove 6 write,noscript,blocking 1 2 1
bzmpop -5 write,blocking,movablekeys 0 0 0
copy -3 write 1 2 1
delex -2 write,fast 1 1 1
eval_ro -3 readonly,noscript,movablekeys 0 0 0
evalsha_ro -3 readonly,noscript,movablekeys 0 0 0
expiretime 2 readonly,fast 1 1 1
geosearch -7 readonly 1 1 1
getdel 2 write,fast 1 1 1
getex -2 write,fast 1 1 1
hello -1 noscript,fast 0 0 0
hexpire -6 write,fast 1 1 1
hpersist -5 write,fast 1 1 1
hpttl -5 readonly,fast 1 1 1
hrandfield -2 readonly 1 1 1
hsetex -6 write,fast 1 1 1
httl -5 readonly,fast 1 1 1
lmove 5 write 1 2 1
lmpop -4 write,movablekeys 0 0 0
lpos -3 readonly 1 1 1
pexpiretime 2 readonly,fast 1 1 1
quit -1 noscript,fast 0 0 0
sintercard -3 readonly,movablekeys 0 0 0
smismember -3 readonly,fast 1 1 1
xautoclaim -6 write,fast 1 1 1
zinter -3 readonly,movablekeys 0 0 0
zmpop -4 write,movablekeys 0 0 0
zmscore -3 readonly,fast 1 1 1
zrandmember -2 readonly 1 1 1
zunion -3 readonly,movablekeys 0 0 0
`

// tellAll makes COMMAND of m list all commands that m has, and SETRANGE with nothing change nothing. Hooks
// run on the goroutine of the connection, before miniredis's own command.
func tellAll(m *miniredis.Miniredis) error {
	var told bytes.Buffer
	w := bufio.NewWriter(&told)
	// Into a buffer in place of a connection: so its own table is had without asking over the network.
	m.Server().Dispatch(server.NewPeer(w), []string{"COMMAND"})
	w.Flush()
	table, _, err := resp.Parse(told.Bytes())
	if err != nil {
		return fmt.Errorf("COMMAND: %w", err)
	}
	for line := range strings.Lines(strings.TrimSpace(Untold)) {
		// behind its own commands, in the form in which Redis 5 describes one
		table.Elems = append(table.Elems, describedAs(line))
	}
	// made once, and not for each COMMAND
	all := string(resp.AppendValue(nil, table))
	m.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		switch {
		case cmd == "COMMAND":
			c.WriteRaw(all)
		case cmd == "SETRANGE" && len(args) == 3 && args[1] == "0" && args[2] == "":
			m.Server().Dispatch(c, []string{"STRLEN", args[0]}) // miniredis would make the key
		default:
			return false
		}
		return true
	})
	return nil
}

// describedAs is a line of Untold as an element of COMMAND's reply.
func describedAs(line string) resp.Value {
	var name, words string
	var arity, first, last, step redcon.SimpleInt
	fmt.Sscan(line, &name, &arity, &words, &first, &last, &step)
	var flags []redcon.SimpleString
	for flag := range strings.SplitSeq(words, ",") {
		flags = append(flags, redcon.SimpleString(flag))
	}
	described, _, _ := resp.Parse(redcon.AppendAny(nil, []any{name, arity, flags, first, last, step}))
	return described
}
