// Package retry says what an error reply means for the request that it answers, and how long the request
// waits before it is tried again. Requests on shared pipes, transactions, commands that block, WAIT and SYNC
// all ask here.
//
//	error reply --> ErrorOf --> Redirect:   at once to the node that it names, Tries.Hop times in a row
//	                     |----> Later:       after Tries.Pause, to the master of the slot, within the budget
//	                     |----> LoadScript:  at once, behind a SCRIPT LOAD
//	                     \----> nil:         the reply is the answer
//
// All of these errors say that the node has not run the request; so it may be sent again although it writes.
// A script can return the same words when it has run: Error.Phrases, OfKeys and OfReplicas tell what only
// Redis says (cluster/pipe, redirect.go).
//
// Who retries keeps a Tries beside the request:
//
//	switch r, _ := retry.ErrorOf(reply); {
//	case r == nil: // the answer
//	case r.Verdict == retry.Redirect && tries.Hop(): // to the node that is named
//	default: // after tries.Pause()
//	}
//
// Begin reading at errors, the table of all of them.
package retry

import (
	"bytes"
	"strings"
	"time"
)

// Verdict is what an error reply says about the request.
type Verdict uint8

const (
	Redirect   Verdict = iota // another node has the slot
	Later                     // no node can run it now; one can in a while
	LoadScript                // the node lacks the script
)

// Error is an error by which Redis says that it has not run a request, so that it may be sent again.
type Error struct {
	Verdict Verdict
	Counts  Reason // the reason under which it is counted
	// Phrases are what Redis, and by chance no script, says behind the word. nil: a redirect; its slot tells
	// whether a script has made it up.
	Phrases []string
	// OfKeys says that Redis gives this error because of the keys of a request, never otherwise.
	OfKeys bool
	// OfReplicas says that no master makes this error.
	OfReplicas bool
}

// errors are these errors by their first words.
var errors = map[string]*Error{
	"MOVED":       {Redirect, Moved, nil, true, false},
	"ASK":         {Redirect, Ask, nil, true, false},
	"TRYAGAIN":    {Later, TryAgain, []string{"Multiple keys request during rehashing"}, true, false},
	"CLUSTERDOWN": {Later, ClusterDown, []string{"The cluster is down", "Hash slot not served"}, true, false},
	"LOADING":     {Later, Loading, []string{"Redis is loading", "Valkey is loading"}, false, false},
	"MASTERDOWN":  {Later, MasterDown, []string{"Link with MASTER is down"}, false, true},
	"READONLY":    {Later, ReadOnly, []string{"You can't write against a read only"}, false, true},
	"NOSCRIPT":    {LoadScript, NoScript, []string{"No matching script"}, false, false},
}

// ErrorOf reads an error reply. r is nil if the reply is the answer; rest is the text behind the first word.
// reply begins with "-", and may have its line end.
func ErrorOf(reply []byte) (r *Error, rest []byte) {
	word, rest, _ := bytes.Cut(reply[1:], []byte(" "))
	return errors[string(word)], rest
}

// MayPass says that an error with that text is one that may go away by itself.
func MayPass(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	return errors[word] != nil
}

// Unserved is what Redis answers for a slot that no node serves.
var Unserved = []byte("-CLUSTERDOWN Hash slot not served\r\n")

// MaxHops is how many redirects in a row are followed at once.
const MaxHops = 5

// Tries counts the tries of one request. The zero value is for a request that has not been tried yet.
type Tries struct {
	hops  uint8 // redirects since the last pause
	waits uint8 // pauses
}

// Hop notes a redirect. It reports false if the request has to pause first, because there were too many
// redirects in a row.
func (r *Tries) Hop() bool {
	if r.hops >= MaxHops {
		return false
	}
	r.hops++
	return true
}

// Paused says that the request has had to pause.
func (r *Tries) Paused() bool { return r.waits > 0 }

// News notes that what the request waits for may have come: it is tried often again.
func (r *Tries) News() { r.waits = min(r.waits, 1) }

// Pause is how long the request waits before it is tried once more: from 10 ms to a quarter of a second,
// twice as long every other time.
func (r *Tries) Pause() time.Duration {
	pause := min(10*time.Millisecond<<min(r.waits/2, 5), 250*time.Millisecond)
	r.waits = min(r.waits+1, 250)
	r.hops = 0
	return pause
}
