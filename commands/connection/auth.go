package connection

import (
	"bytes"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// auth is AUTH [user] password. A client may authenticate again as somebody else. An attempt that fails
// leaves it as it was, as in Redis.
func auth(c *commands.Call) []byte {
	user, password := []byte(commands.DefaultUser), c.Args[1]
	switch {
	case len(c.Args) > 3:
		return resp.ErrSyntax
	case len(c.Args) == 3:
		user, password = c.Args[1], c.Args[2]
	case !c.Server.AuthRequired():
		return errNoPassword
	}
	return login(c, user, password, func(refusal []byte) []byte {
		if refusal != nil {
			return refusal
		}
		return resp.OK
	})
}

// login authenticates the client and returns the answer, which then makes; or nil if the answer comes later.
//
// If clients have to be users of the upstream, the upstream decides. Otherwise the default user stands for
// the proxy's own login at the upstream: with the password of the proxy, or with any if the proxy has none.
// All other users are checked by the upstream, for clients that may use the proxy already. A user of that
// kind is not looked up before the client has the proxy's own password: otherwise anybody could try passwords
// of the upstream through the proxy.
//
// then runs once, on the loop of the client. Its refusal is nil if the client has authenticated.
func login(c *commands.Call, name, password []byte, then func(refusal []byte) []byte) []byte {
	client, user, server := c.Client, string(name), c.Server
	required := server.AuthRequired()
	switch {
	case server.UsersOnly(), user != commands.DefaultUser && (client.Authenticated || !required):
		c.Connection().Login(user, string(password), func(refusal []byte) []byte {
			server.LoginEnded(client, user, true, refusal)
			if refusal == nil {
				client.User, client.Authenticated = user, true
			}
			// refusal lies in the reply of the upstream, and then may keep it
			return then(bytes.Clone(refusal))
		})
		return nil
	case user != commands.DefaultUser, required && !server.CheckAuth(name, password):
		server.LoginEnded(client, user, false, errWrongPass)
		return then(errWrongPass)
	}
	// The default user has the connections that all clients share, and none of an earlier user.
	server.LoginEnded(client, user, false, nil)
	c.Connection().Logout()
	client.User, client.Authenticated = user, true
	return then(nil)
}

// The texts are those of Redis.
var errWrongPass = []byte("-WRONGPASS invalid username-password pair or user is disabled.\r\n")

var errNoPassword = []byte("-ERR AUTH <password> called without any password configured for the default " +
	"user. Are you sure your configuration is correct?\r\n")
