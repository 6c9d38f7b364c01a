package connection

import (
	"bytes"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// hello is HELLO [protover [AUTH user password] [SETNAME name]]. Its options take effect one by one: those
// before a wrong one have taken effect, as in Redis.
func hello(c *commands.Call) []byte {
	proto := c.Client.Proto
	if len(c.Args) > 1 {
		n, ok := resp.Integer(c.Args[1])
		switch {
		case !ok:
			return resp.ErrorLine("ERR Protocol version is not an integer or out of range")
		case n < 2 || n > 3:
			return resp.ErrorLine("NOPROTO unsupported protocol version")
		}
		proto = int(n)
	}
	return helloAs(c, proto, c.Args[min(2, len(c.Args)):])
}

// helloAs is HELLO from its options on. It returns the answer, or nil if a node is asked before.
func helloAs(c *commands.Call, proto int, options [][]byte) []byte {
	for len(options) > 0 {
		option, more := options[0], len(options)-1
		switch {
		case resp.IsWord(option, "AUTH") && more >= 2:
			// Its Args and Raw are not valid any more when the answer comes; options are copied for that
			// reason, and nothing else of it is used.
			later := *c // c is valid only until Run returns
			rest := resp.CloneArgs(options[3:])
			return login(c, options[1], options[2], func(refusal []byte) []byte {
				if refusal != nil {
					return refusal
				}
				return helloAs(&later, proto, rest)
			})
		case resp.IsWord(option, "SETNAME") && more >= 1:
			if !printable(options[1]) {
				return errName("Client names")
			}
			c.Client.Name = string(options[1])
			options = options[2:]
		default:
			return resp.ErrorLine("ERR Syntax error in HELLO option '%s'", option)
		}
	}
	switch {
	case c.Client.Authenticated:
	case c.Server.Upstream().AtLeast(7, 2):
		return errHelloNoAuth72
	default:
		return errHelloNoAuth
	}
	// Last, so that the answer of a HELLO that fails comes in the protocol that the client speaks now.
	c.Client.Proto = proto
	return appendHello(nil, c)
}

// errHelloNoAuth72 is errHelloNoAuth of Redis 7.2.
var errHelloNoAuth72 = bytes.Replace(errHelloNoAuth, []byte("HELLO AUTH"), []byte("HELLO <proto> AUTH"), 1)

// appendHello is what a client learns about the server, which is what the upstream says of itself. It has the
// form of the new protocol already. The list of modules is empty: what clients would use them for is not
// known here.
func appendHello(dst []byte, c *commands.Call) []byte {
	dst = resp.AppendMap(dst, c.Client.Proto, 7)
	product, version := commands.ToldProduct(c.Server)
	dst = resp.AppendBulks(dst, "server", product, "version", version)
	dst = resp.AppendNumber(dst, "proto", c.Client.Proto)
	dst = resp.AppendNumber(dst, "id", c.Client.ID)
	dst = resp.AppendBulks(dst, "mode", commands.ModeName(c.Server), "role", "master", "modules")
	return redcon.AppendArray(dst, 0)
}

var errHelloNoAuth = []byte("-NOAUTH HELLO must be called with the client already authenticated, " +
	"otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the " +
	"RESP protocol version at the same time\r\n")

// setsProtocol is for a HELLO in a transaction, which the node runs; the proxy has to speak that protocol
// from then on.
func setsProtocol(args [][]byte) commands.Queued {
	if len(args) > 1 {
		return commands.Queued{DB: -1, Proto: string(args[1])}
	}
	return commands.Queued{DB: -1}
}
