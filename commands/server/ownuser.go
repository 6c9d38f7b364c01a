package server

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// This file is about changes of the user that the proxy itself is at the upstream. One that keeps the proxy
// out is refused: the standing connections would go on, every new one would fail, and no client could undo
// it through the proxy.

const (
	ownUserShutOut = ": it would keep out lockproxy itself, which is user '%s' there with another password " +
		"(upstream-user, upstream-password); give lockproxy another user or password first, or change this " +
		"one at the servers and in lockproxy's settings"
	ownUserDeleted = ": lockproxy itself is user '%s' there (upstream-user); give it another user first"
)

// aclSetUser is ACL SETUSER name [rule ...]. A new user of another name, or a change that leaves the password
// alone, goes to all servers.
func aclSetUser(c *commands.Call) {
	if name := ownUser(c); string(c.Args[2]) == name && shutsOut(c.Server.Login().Password, c.Args[3:]) {
		c.Reply(refusalOf(c, ownUserShutOut, name))
		return
	}
	everyServer(c)
}

// aclDelUser is ACL DELUSER name [name ...].
func aclDelUser(c *commands.Call) {
	name := ownUser(c)
	if name != commands.DefaultUser && // which the servers themselves refuse
		slices.ContainsFunc(c.Args[2:], func(arg []byte) bool { return string(arg) == name }) {
		c.Reply(refusalOf(c, ownUserDeleted, name))
		return
	}
	everyServer(c)
}

// ownUser is whom the proxy is at the upstream. Without upstream-user it is the default user, as in any
// Redis.
func ownUser(c *commands.Call) string { return cmp.Or(c.Server.Login().User, commands.DefaultUser) }

// refusalOf is the refusal for that reason, in which %s stands for the name of the user. The name may have a
// % itself, so it is not a format.
func refusalOf(c *commands.Call, why, name string) []byte {
	return commands.Refusal(c.Command.Name, strings.ReplaceAll(why, "%s", name))
}

// shutsOut says that a user who has that password now, or needs none if it is "", cannot log in with it once
// rules of ACL SETUSER apply. The rules take effect one after the other, as in Redis. Those for commands,
// keys and channels are not looked at: the proxy can log in all the same.
func shutsOut(password string, rules [][]byte) bool {
	sum := sha256.Sum256([]byte(password))
	digest := hex.EncodeToString(sum[:])
	// It has logged in with it, so that works now.
	on, fits := true, true
	for _, rule := range rules {
		is := func(word string) bool { return resp.IsWord(rule, word) }
		switch text := string(rule); {
		case is("on"):
			on = true
		case is("off"):
			on = false
		case is("nopass"):
			fits = true
		case is("resetpass"):
			fits = false
		case is("reset"):
			on, fits = false, false
		// Redis passes over it.
		case text == "":
		case text[0] == '>' && password != "":
			fits = fits || text[1:] == password
		case text[0] == '#' && password != "":
			fits = fits || strings.EqualFold(text[1:], digest)
		case text[0] == '>', text[0] == '#':
			fits = false // who needed no password needs this one
		case text[0] == '<' && text[1:] == password, text[0] == '!' && strings.EqualFold(text[1:], digest):
			fits = false
		}
	}
	return !on || !fits
}
