package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"lockproxy/integration/rig"
)

// verb is what a client does.
type verb string

const (
	vGet   verb = "GET"
	vSet   verb = "SET"
	vIncr  verb = "INCR"
	vPush  verb = "RPUSH" // onto a list of the client's own
	vMulti verb = "MULTI" // two RPUSH and EXEC
	vEval  verb = "EVAL"  // two RPUSH
	vQueue verb = "queue" // RPUSH to a queue
	vPop   verb = "BLPOP" // from it
)

// outcome is what a client knows of what it asked for.
type outcome int

const (
	acked   outcome = iota // a reply that is no error
	unknown                // it may or may not have run
	notRun                 // it was told that it has not run
)

// op is one thing that a client asked for, and what it was told.
type op struct {
	way     int // whose client: an index of load.ways
	worker  int // among those of all ways
	verb    verb
	key     string
	elems   []string // what it writes: a value, or elements of a list; what a GET must find, if anything
	start   time.Duration
	end     time.Duration
	outcome outcome
	reply   string // of what is acked: of INCR, GET and BLPOP; "" of a BLPOP in vain
	null    bool   // of a GET
	why     string // of what is not: the error, without what differs from one to the next
}

// writes says that the op changes data.
func (o op) writes() bool { return o.verb != vGet }

// told fills in what came back of the last of the commands: of EXEC, if there are several.
func (o *op) told(v rig.Reply, err error) {
	switch {
	case err != nil:
		o.outcome, o.why = unknown, kindOf(err.Error())
		if isRefusal(err) {
			o.outcome = notRun
		}
	case v.IsError():
		o.outcome, o.why = notRun, kindOf(v.Text)
		if unclear.MatchString(v.Text) {
			o.outcome = unknown
		}
	case o.verb == vPop && len(v.Elems) == 2:
		o.reply = v.Elems[1].Text
	case o.verb == vMulti && v.Null:
		o.outcome, o.why = notRun, "EXEC said Null"
	default:
		o.reply, o.null = v.Text, v.Null
	}
}

var (
	addresses = regexp.MustCompile(`\[?[\w.:-]*\]?:\d{2,5}(->[\w.]+:\d+)?`)
	unclear   = regexp.MustCompile(`may (or may not )?have run`)
	digits    = regexp.MustCompile(`\d+`)
)

// kindOf is an error without addresses and numbers, and not all of it.
func kindOf(text string) string {
	text = strings.Replace(text, "ERR the connection was lost after the command was sent: it may or may not "+
		"have run", "it may or may not have run", 1)
	text = digits.ReplaceAllString(addresses.ReplaceAllString(text, "NODE"), "N")
	if runes := []rune(text); len(runes) > 90 {
		text = string(runes[:90]) + "..."
	}
	return text
}

const pushTwo = "redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('RPUSH', KEYS[1], ARGV[2])"

// commands are what is sent for an op.
func (o op) commands() [][]string {
	switch o.verb {
	case vGet, vIncr:
		return [][]string{{string(o.verb), o.key}}
	case vSet:
		return [][]string{{"SET", o.key, o.elems[0]}}
	case vMulti:
		return [][]string{{"RPUSH", o.key, o.elems[0]}, {"RPUSH", o.key, o.elems[1]}}
	case vEval:
		return [][]string{{"EVAL", pushTwo, "1", o.key, o.elems[0], o.elems[1]}}
	case vPop:
		return [][]string{{"BLPOP", o.key, "1"}}
	}
	return [][]string{{"RPUSH", o.key, o.elems[0]}}
}

// kind is how the error of an op is counted.
func (o op) kind() string {
	word := "failed"
	if o.writes() {
		word = [...]string{unknown: "unknown", notRun: "not run"}[o.outcome]
	}
	return fmt.Sprintf("%s %s: %s", o.verb, word, o.why)
}
