package proxy

import (
	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
)

// This file has EXEC find the scripts that were queued by their SHA1: a node that has lost one would
// say so in the middle of the transaction, when other commands have run. So it is asked before, and
// given what it lacks, over the connection that all clients share.

type scriptState uint8

const (
	scriptsUnknown scriptState = iota
	scriptsAsked
	scriptsThere // as far as the sources are known
)

// haveScripts says that EXEC need not wait for scripts. Else it goes on by itself later.
func (l *txConn) haveScripts() bool {
	if l.scripts == scriptsUnknown {
		l.askScripts()
	}
	return l.scripts == scriptsThere
}

// askScripts asks for the scripts whose sources are known.
func (l *txConn) askScripts() {
	ask, sources := [][]byte{[]byte("SCRIPT"), []byte("EXISTS")}, [][]byte(nil)
	seen := make(map[string]bool)
	for _, sha := range l.t.shas {
		if seen[string(sha)] {
			continue
		}
		seen[string(sha)] = true
		if source, ok := l.t.h.worker().server.scripts.Get(sha); ok {
			ask, sources = append(ask, sha), append(sources, source)
		}
	}
	if len(sources) == 0 {
		l.scripts = scriptsThere
		return
	}
	l.scripts = scriptsAsked
	l.besides(resp.AppendCommand(nil, ask...), func(reply []byte) { l.loadScripts(reply, sources) })
}

// loadScripts loads those of sources that the node lacks by its reply to SCRIPT EXISTS.
func (l *txConn) loadScripts(reply []byte, sources [][]byte) {
	missing := 0
	loaded := func([]byte) {
		if missing--; missing <= 0 && !l.over {
			l.scripts = scriptsThere
			l.pump()
		}
	}
	v, _, _ := resp.Parse(reply)
	var loads [][]byte
	for i, e := range v.Elems {
		if i < len(sources) && e.Int == 0 {
			loads = append(loads, resp.AppendCommand(nil, []byte("SCRIPT"), []byte("LOAD"), sources[i]))
		}
	}
	if missing = len(loads); missing == 0 || l.over {
		loaded(nil)
		return
	}
	for _, load := range loads {
		l.t.h.worker().server.pipeStats.Redirects[cluster.ScriptRedirect].Add(1)
		l.besides(load, loaded)
	}
}

// besides sends req to the transaction's node over the shared connection. then gets the reply, or nil.
func (l *txConn) besides(req []byte, then func(reply []byte)) {
	h := l.t.h
	h.worker().pipes.Send(cluster.Request{
		Target: cluster.ToNode(l.pipe.Addr()), Mode: h.SharedMode(), Bytes: req,
		To: &client.Collector{Then: then}, Resend: true,
	})
}
