package redlock

import (
	"errors"
	"strings"
)

// ReplyError is an error reply of Redis or of a script: LOCKTYPE, QUEUEFULL, and whatever
// Redis itself says.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// Refused says that err is an answer of the acquire script itself, and nothing was made, or that of
// too few masters, and what was made is being taken back.
func Refused(err error) bool {
	var said ReplyError
	if !errors.As(err, &said) {
		return false
	}
	word, _, _ := strings.Cut(string(said), " ")
	return word == "LOCKTYPE" || word == "QUEUEFULL" || word == "DEADLOCK" || word == "NOQUORUM"
}

// ErrAgain says that a request is to be made again, and sent: the master of the slot has another replication
// id than the request named, and may grant all the same; or the queue is so long that one script does not
// find who is first; or a later request of the same token has overtaken it.
var ErrAgain = errors.New("redlock: the request named another master, or is to be sent again")
