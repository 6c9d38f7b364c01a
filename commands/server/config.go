package server

import (
	"bytes"
	"net"
	"slices"
	"strings"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// CONFIG works on the settings of the proxy and on the parameters of the upstream's servers together. A name
// that both have means the proxy's setting.

// bothTheirs are parameters that must be the same in the proxy and in the servers. Both bound what one client
// may send, so if they differed, the servers would refuse what the proxy has let through, or the other way
// round. The keys are names in lower case.
var bothTheirs = map[string]bool{"proto-max-bulk-len": true, "client-query-buffer-limit": true}

// ofOneServer says that a parameter makes sense for one server only. Each server has its own value then, and
// one for all of them would take them off the network. name is in lower case.
func ofOneServer(name string) bool {
	switch name {
	case "port", "tls-port", "bind", "bind-source-addr", "unixsocket":
		return true
	}
	prefixes := []string{"cluster-announce-", "replica-announce-", "slave-announce-"}
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// configGet is CONFIG GET glob ... The first master stands for all: CONFIG SET gives all of them the same.
func configGet(c *commands.Call) {
	own, have, all := ownSettings(c)
	if all {
		c.Reply(appendSettings(nil, c.Client.Proto, own))
		return
	}
	server, proto := c.Server, c.Client.Proto
	c.Ask(pipe.ToMaster(0), c.Raw, commands.Reread, func(reply []byte) []byte {
		v, _, err := resp.Parse(reply)
		switch {
		case resp.IsError(reply) && (len(own) > 0 || saysUnknown(reply)):
			// The settings of the proxy can be read whatever the upstream allows.
			return appendSettings(nil, proto, own)
		case resp.IsError(reply):
			return reply
		case err != nil || !resp.IsMap(v):
			return resp.ErrUnexpected
		}
		// A name that both have means the proxy's setting, so that of the server is left out.
		for i := 0; i+1 < len(v.Elems); i += 2 {
			name, value := v.Elems[i].Text(), v.Elems[i+1].Text()
			if have[strings.ToLower(name)] {
				continue
			}
			own = append(own, [2]string{name, shownParameter(strings.ToLower(name), value, server)})
		}
		return appendSettings(nil, proto, own)
	})
}

// ownSettings are the settings of the proxy that the globs of CONFIG GET name, each once, and these names in
// lower case. all says that the globs cannot name anything else. With all, no server needs to be asked: each
// glob is the plain name of a setting of the proxy.
func ownSettings(c *commands.Call) (own [][2]string, names map[string]bool, all bool) {
	names, all = make(map[string]bool), true
	for _, glob := range c.Args[2:] {
		found := c.Server.Config().Get(string(glob))
		all = all && len(found) > 0 && !strings.ContainsAny(string(glob), "*?[\\")
		for _, s := range found {
			if name := strings.ToLower(s[0]); !names[name] {
				names[name] = true
				own = append(own, s)
			}
		}
	}
	return own, names, all
}

// saysUnknown says that a server does not have the command that it was sent. So it is with upstreams that
// have no CONFIG, such as the one in memory.
func saysUnknown(reply []byte) bool { return bytes.HasPrefix(reply, []byte("-ERR unknown command")) }

// appendSettings appends the reply to CONFIG GET, by name, as Valkey has it: with Redis the order means
// nothing.
func appendSettings(dst []byte, proto int, settings [][2]string) []byte {
	slices.SortFunc(settings, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	dst = resp.AppendMap(dst, proto, len(settings))
	for _, s := range settings {
		dst = resp.AppendBulks(dst, s[0], s[1])
	}
	return dst
}

// shownParameter is what clients see of a parameter of the upstream. name is in lower case. An empty secret
// is shown as it is: whether there is one is no secret.
func shownParameter(name, value string, server commands.Server) string {
	if instead := disguise(name, server); instead != plainly && (value != "" || instead != hiddenSecret) {
		return instead
	}
	return value
}

const (
	// No parameter has a NUL in its value, while "" is a disguise.
	plainly      = "\x00" // as it is
	hiddenSecret = "(hidden)"
)

// disguise is what clients see in place of the value of a parameter: the proxy's address instead of a
// server's, and no secrets. What is left of addresses gets the default of Redis: "" for a name, 0 for a port.
// name is in lower case.
func disguise(name string, server commands.Server) string {
	switch {
	case name == "masterauth" || strings.HasSuffix(name, "-file-pass"):
		return hiddenSecret
	case !ofOneServer(name):
		return plainly
	}
	host, port, err := net.SplitHostPort(server.Facts().Addr)
	switch {
	case name == "port" && err == nil:
		return port
	case name == "bind" && err == nil:
		return host
	// the proxy listens on a path, which is no host:port
	case name == "unixsocket" && err != nil:
		return server.Facts().Addr
	case strings.HasSuffix(name, "port"):
		return "0"
	}
	return ""
}

// configResetStat is CONFIG RESETSTAT: the proxy's counters and those of all servers. The proxy's are reset
// whatever the servers say: a client that polls INFO is to see both begin anew, and the proxy's cannot fail.
func configResetStat(c *commands.Call) {
	c.Server.OwnStats().Reset()
	everyServer(c)
}

// role is ROLE: a master, as in HELLO and INFO. The offset of the replication log is 0 and there are no
// replicas: nobody replicates the proxy.
func role(c *commands.Call) { c.Reply([]byte("*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n")) }
