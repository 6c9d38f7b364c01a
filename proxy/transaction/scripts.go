package transaction

import (
	"lockproxy/cluster/pipe"
	"lockproxy/internal/resp"
)

// This file makes sure that EXEC finds the scripts that were queued by their SHA1. A node that has lost one
// would say so in the middle of the transaction, after other commands have run. So the node is asked before,
// and is given the missing ones over the shared connection.

// scriptState is what one connection knows of its node's scripts: another node may lack other ones.
type scriptState uint8

const (
	scriptsUnknown scriptState = iota
	scriptsAsked
	scriptsThere // all whose sources are known
)

// haveScripts says that EXEC need not wait for scripts. Otherwise EXEC goes on by itself later. It is asked
// when EXEC is to be sent, so all SHA1s are known by then.
func (l *txConn) haveScripts() bool {
	if l.scripts == scriptsUnknown {
		l.askScripts()
	}
	return l.scripts == scriptsThere
}

// askScripts asks for the scripts whose sources are known. A script whose source nobody knows is left to the
// node, which will say that it has none.
func (l *txConn) askScripts() {
	ask, sources := [][]byte{[]byte("SCRIPT"), []byte("EXISTS")}, [][]byte(nil)
	seen := make(map[string]bool)
	for _, sha := range l.t.shas {
		if seen[string(sha)] {
			continue
		}
		seen[string(sha)] = true
		if source, ok := l.t.of.proxy.Server().Scripts().Get(sha); ok {
			ask, sources = append(ask, sha), append(sources, source)
		}
	}
	if len(sources) == 0 {
		l.scripts = scriptsThere
		return
	}
	l.scripts = scriptsAsked
	l.askBesides(resp.AppendCommand(nil, ask...), func(reply []byte) { l.loadScripts(reply, sources) })
}

// loadScripts loads those sources that the node lacks, by its reply to SCRIPT EXISTS. If the reply is an
// error nothing is loaded, and EXEC goes on: a user may have no right to ask.
func (l *txConn) loadScripts(reply []byte, sources [][]byte) {
	v, _, _ := resp.Parse(reply)
	var missing [][]byte
	for i, e := range v.Elems {
		if i < len(sources) && e.Int == 0 {
			missing = append(missing, sources[i])
		}
	}
	l.loadSome(missing)
}

// loadAtOnce is how many bytes of scripts are copied for a node in one round of the loop.
const loadAtOnce = 256 << 10

// loadSome loads some of the scripts, and goes on with the rest when the node has them. Whether the node took
// them is not looked at: EXEC itself will say.
func (l *txConn) loadSome(missing [][]byte) {
	switch {
	case l.over:
		return
	case len(missing) == 0:
		l.scripts = scriptsThere
		l.pumpRequests()
		return
	}
	n, size := 0, 0
	for n < len(missing) && (n == 0 || size+len(missing[n]) <= loadAtOnce) {
		size += len(missing[n])
		n++
	}
	unanswered := n
	for _, source := range missing[:n] {
		l.t.of.proxy.ScriptLoaded()
		load := resp.AppendCommand(nil, []byte("SCRIPT"), []byte("LOAD"), source)
		l.askBesides(load, func([]byte) {
			if unanswered--; unanswered == 0 {
				l.loadSome(missing[n:])
			}
		})
	}
}

// askBesides sends req to the transaction's node over the shared connection. then gets the reply, or nil. It
// must not go over the transaction's own connection, where it would be queued.
func (l *txConn) askBesides(req []byte, then func(reply []byte)) {
	h := l.t.h
	pipe.Ask(h.Pool(), pipe.ToNode(l.pipe.Addr()), sharedMode(h.Mode()), req,
		func(reply []byte, _ error) { then(reply) })
}
