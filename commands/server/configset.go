package server

import (
	"slices"
	"strings"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/commands/merge"
	"lockproxy/internal/resp"
)

// configChange is one CONFIG SET. It lives from the call until the masters have answered, on the loop of its
// client, who may have gone by then. The pairs are name and value as the client wrote them.
type configChange struct {
	actions commands.Actions
	server  commands.Server
	client  *commands.Client
	own     [][2]string // of the proxy
	theirs  [][2]string // of the servers
	req     []byte      // what the servers are sent
}

// configSet is CONFIG SET name value ...: all of it takes effect or nothing, as far as that is possible with
// several servers. The servers are asked first, because the proxy can tell beforehand what it will accept.
// For the same reason Check stands before anything is sent.
func configSet(c *commands.Call) []byte {
	args := c.Args[2:]
	if len(args)%2 != 0 {
		return resp.ErrSyntax
	}
	ch := &configChange{actions: c.Actions, server: c.Server, client: c.Client}
	config := c.Server.Config()
	for i := 0; i < len(args); i += 2 {
		pair := [2]string{string(args[i]), string(args[i+1])}
		name := strings.ToLower(pair[0])
		switch ours := config.Has(name); {
		// the servers take it first, then the proxy: see mastersAnswered
		case ours && bothTheirs[name]:
			ch.own, ch.theirs = append(ch.own, pair), append(ch.theirs, pair)
		case ours:
			ch.own = append(ch.own, pair)
		case pair[1] == disguise(name, c.Server):
			// As CONFIG GET says it: a client that writes back what it has read changes nothing.
		// Several masters on one machine would write to the same file.
		case ofOneServer(name), c.Nodes().Masters() > 1 && (name == "dir" || name == "dbfilename"):
			why := "can't be set through lockproxy"
			if strings.HasSuffix(name, "port") {
				why = "Unable to listen on this port through lockproxy"
			}
			return resp.ErrorLine("ERR CONFIG SET failed (possibly related to argument '%.128s') - %s: "+
				"it belongs to one server", pair[0], why)
		default:
			ch.theirs = append(ch.theirs, pair)
		}
	}
	// If the servers refuse this too, theirs is the error: perhaps another parameter comes first.
	if err := config.Check(ch.own); err != nil &&
		!(len(ch.own) == 1 && len(ch.theirs) > 1 && bothTheirs[strings.ToLower(ch.own[0][0])]) {
		return resp.ErrorLine("%s", err)
	}
	if len(ch.theirs) == 0 {
		return ch.setOwn()
	}
	// The command as it came, if all of it is theirs; it is kept for the replicas. The servers never see a
	// setting that only the proxy knows: they would refuse all of them.
	ch.req = slices.Clone(c.Raw)
	if len(ch.theirs) < len(args)/2 {
		words := []string{"CONFIG", "SET"}
		for _, pair := range ch.theirs {
			words = append(words, pair[:]...)
		}
		ch.req = resp.AppendCommandStrings(nil, words...)
	}
	c.AskAll(ch.req, commands.Asking{Resend: true, Always: true}, ch.mastersAnswered)
	return nil
}

// setOwn changes the settings of the proxy, and returns the answer. The servers have taken theirs by then, if
// there are any. An error is not expected behind Check; theirs stay changed if it comes all the same.
func (ch *configChange) setOwn() []byte {
	if len(ch.own) > 0 {
		if err := ch.server.Config().SetAll(ch.own); err != nil {
			return resp.ErrorLine("%s", err)
		}
	}
	ch.server.ConfigSet(ch.client, slices.Concat(ch.theirs, ch.own))
	return resp.OK
}

// mastersAnswered goes on when the masters have answered. It runs also when the client has gone
// (Asking.Always): otherwise the proxy and its servers would differ.
func (ch *configChange) mastersAnswered(proto int, replies [][]byte) []byte {
	refused := merge.FirstError(replies)
	if saysUnknown(refused) {
		// The upstream has no parameters; those that the proxy shares with it are the proxy's own.
		for _, p := range ch.theirs {
			if !bothTheirs[strings.ToLower(p[0])] {
				return resp.ErrorLine("ERR Unknown option or number of arguments for CONFIG SET - '%.128s'",
					p[0])
			}
		}
		return ch.setOwn()
	}
	if refused == nil {
		ch.actions.Nodes().TellReplicas(ch.req)
		return ch.setOwn()
	}
	// Some have taken it and some have not: those that have are set back.
	taken := slices.IndexFunc(replies, func(reply []byte) bool { return !resp.IsError(reply) })
	refuser := slices.IndexFunc(replies, func(reply []byte) bool { return string(reply) == string(refused) })
	if taken < 0 {
		return refused
	}
	ch.takeBack(slices.Clone(refused), refuser)
	return nil
}

// takeBack sets the parameters on all masters to what the one that refused them has. The answer is its
// refusal. What the refuser has is what all had before, if they were the same. It is done as well as it can
// be: how that ends is not told, for the client is to learn why its command was refused.
func (ch *configChange) takeBack(refused []byte, refuser int) {
	names := []string{"CONFIG", "GET"}
	for _, p := range ch.theirs {
		names = append(names, p[0])
	}
	actions := ch.actions
	// the masters may be others by now
	if refuser >= actions.Nodes().Masters() {
		refuser = 0
	}
	actions.Ask(pipe.ToMaster(refuser), resp.AppendCommandStrings(nil, names...), commands.Reread,
		func(reply []byte) []byte {
			v, _, err := resp.Parse(reply)
			// Nothing is known of how it was, so all stays as it is.
			if err != nil || v.Err() != "" || !resp.IsMap(v) || len(v.Elems) == 0 {
				return refused
			}
			words := []string{"CONFIG", "SET"}
			for _, elem := range v.Elems {
				words = append(words, elem.Text())
			}
			actions.AskAll(resp.AppendCommandStrings(nil, words...),
				commands.Asking{Resend: true, Always: true},
				func(int, [][]byte) []byte { return refused })
			return nil
		})
}

// configSecrets are the values of the settings that hold passwords: requirepass, masterauth,
// tls-key-file-pass ... Values stand behind their names, at odd positions from 3 on.
func configSecrets(args [][]byte, secret []bool) {
	for i := 3; i < len(args); i += 2 {
		secret[i] = commands.SecretSetting(string(args[i-1]))
	}
}
