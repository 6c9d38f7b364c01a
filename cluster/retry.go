package cluster

import (
	"bytes"
	"strings"
	"time"
)

// This file is the one place that says what an error reply means for the request that it answers, and how
// long the request waits before it is tried again. Requests on shared pipes, transactions, commands that
// block, WAIT and SYNC all ask here.
//
//	error reply --> retryErrors --> elsewhere:  at once to the node that it names, Retry.Hop times in a row
//	                         |-> later:      after Retry.Pause, to the master of the slot, while the budget lasts
//	                         |-> loadScript: at once, behind a SCRIPT LOAD
//	                         \-> nothing:    the reply is the answer

// verdict is what an error reply says about the request.
type verdict uint8

const (
	elsewhere  verdict = iota // another node has the slot
	later                     // no node can run it now; one can in a while
	loadScript                // the node lacks the script
)

// retryError is an error by which Redis says that it has not run a request, and that it may be run all the
// same.
type retryError struct {
	verdict verdict
	counts  Redirect // as which it is counted
	// phrases are how Redis, and no script by chance, goes on behind the word. nil: a redirect, of which the
	// slot tells who made it.
	phrases []string
	// ofKeys says that Redis refuses requests in this way for their keys alone.
	ofKeys bool
	// ofReplicas says that no master makes this error.
	ofReplicas bool
}

// retryErrors are these errors by their first words.
var retryErrors = map[string]*retryError{
	"MOVED":       {elsewhere, MovedRedirect, nil, true, false},
	"ASK":         {elsewhere, AskRedirect, nil, true, false},
	"TRYAGAIN":    {later, TryAgainRedirect, []string{"Multiple keys request during rehashing"}, true, false},
	"CLUSTERDOWN": {later, ClusterDownRedirect, []string{"The cluster is down", "Hash slot not served"}, true, false},
	"LOADING":     {later, LoadingRedirect, []string{"Redis is loading", "Valkey is loading"}, false, false},
	"MASTERDOWN":  {later, MasterDownRedirect, []string{"Link with MASTER is down"}, false, true},
	"READONLY":    {later, ReadOnlyRedirect, []string{"You can't write against a read only"}, false, true},
	"NOSCRIPT":    {loadScript, ScriptRedirect, []string{"No matching script"}, false, false},
}

// retryErrorOf reads an error reply. r is nil if the reply is the answer; rest is what stands behind the
// first word.
func retryErrorOf(reply []byte) (r *retryError, rest []byte) {
	word, rest, _ := bytes.Cut(reply[1:], []byte(" "))
	return retryErrors[string(word)], rest
}

// mayPass says that an error, of that text, is one of those that go away.
func mayPass(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	return retryErrors[word] != nil
}

// Unserved is what Redis answers for a slot that no node serves.
var Unserved = []byte("-CLUSTERDOWN Hash slot not served\r\n")

// maxHops is how many redirects in a row are followed at once.
const maxHops = 5

// Retry counts the tries of one request. Its zero value is for a request that was not tried yet.
type Retry struct {
	hops  uint8 // redirects since the last pause
	waits uint8 // pauses
}

// Hop notes a redirect. It reports false when the request has to pause first, for there were too many in a
// row.
func (r *Retry) Hop() bool {
	if r.hops >= maxHops {
		return false
	}
	r.hops++
	return true
}

// Pause is how long the request waits before it is tried once more: from 10 ms to a quarter of a second,
// twice as long every other time.
func (r *Retry) Pause() time.Duration {
	pause := min(10*time.Millisecond<<min(r.waits/2, 5), 250*time.Millisecond)
	r.waits = min(r.waits+1, 250)
	r.hops = 0
	return pause
}
