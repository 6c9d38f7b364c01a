package server

import (
	"cmp"
	"math"
	"slices"

	"lockproxy/commands"
	"lockproxy/commands/merge"
	"lockproxy/internal/resp"
)

// slowShown is how many entries SLOWLOG GET shows by default.
const slowShown = 10

// slowlogGet is SLOWLOG GET [count], and COMMANDLOG GET count type of Valkey since 8.1: the logs of all
// masters as if they were one, the newest entry first. The masters say what is wrong with the arguments. Each
// master gives its newest count entries, among which are all of the newest count of all masters together.
func slowlogGet(c *commands.Call) {
	count := int64(slowShown)
	if len(c.Args) > 2 {
		n, ok := resp.Integer(c.Args[2])
		// -1 means all of them; for what is wrong a master gives the error
		if count = n; !ok || n < 0 {
			count = math.MaxInt
		}
	}
	table, actions := c.Table, c.Actions
	c.AskAll(c.Raw, commands.Asking{Resend: true, Always: true}, func(_ int, replies [][]byte) []byte {
		// The replies belong to this command, so a goroutine may read them. It may be much work: a log may
		// have thousands of entries, each with up to 32 arguments.
		commands.Beside(actions, func() []byte { return mergeSlowlogs(table, replies, count) })
		return nil
	})
}

// mergeSlowlogs is the reply that shows the newest count entries of several logs. It may take long. An entry
// is an array: id, unix time in seconds, microseconds, arguments, and since Redis 4.0 address and name of the
// client. Within a second the order of the masters decides.
func mergeSlowlogs(t *commands.Table, replies [][]byte, count int64) []byte {
	if err := merge.FirstError(replies); err != nil {
		return err
	}
	var entries []resp.Value
	for i, reply := range replies {
		log, _, err := resp.Parse(reply)
		if err != nil || log.Kind != '*' {
			return resp.ErrUnexpected
		}
		for _, e := range log.Elems {
			if len(e.Elems) < 4 {
				return resp.ErrUnexpected
			}
			// Clients tell entries apart by it, and poll for higher ones. It grows with the id at the master,
			// as long as there are as many masters.
			id := &e.Elems[0]
			id.Int = id.Int*int64(len(replies)) + int64(i) // no two logs have the same
			redact(t, e.Elems[3].Elems)
			entries = append(entries, e)
		}
	}
	slices.SortStableFunc(entries,
		func(a, b resp.Value) int { return cmp.Compare(b.Elems[1].Int, a.Elems[1].Int) })
	entries = entries[:min(int64(len(entries)), count)]
	return resp.AppendValue(nil, resp.Value{Kind: '*', Elems: entries})
}

// redact hides the secrets in args, the command of an entry: a node may show secrets in settings that it does
// not know. The node has cut long commands off, so the arguments may be fewer than were sent.
func redact(t *commands.Table, args []resp.Value) {
	if len(args) == 0 {
		return
	}
	words := make([][]byte, len(args))
	for i, arg := range args {
		words[i] = arg.Str
	}
	c, _ := t.Resolve(words)
	for i, secret := range c.Secrets(words) {
		if secret {
			args[i].Str = commands.Redacted
		}
	}
}
