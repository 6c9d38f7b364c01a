package redlock

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ReplyError is an error reply of Redis or of a script: LOCKTYPE, QUEUEFULL, and whatever
// Redis itself says.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// scriptsWords are what Redis puts around the error of a command that a script ran, which says where in which
// script that was: before 7.0 in front of it, since then behind it.
var scriptsWords = regexp.MustCompile(
	`^ERR Error running script \(call to f_\w+\): .*: -| script: (\w+, )?on @user_script:\d+\.\s*$`)

// full is how Redis says that it is at its maxmemory.
const full = "OOM command not allowed"

// noScripts and noTime are for a server that lacks what all locks need, by rename-command or by the rules of
// the proxy's user.
const (
	noScripts = "ERR there are no locks here: each verb of theirs is a script, and their Redis does not " +
		"know EVALSHA (rename-command took it away)"
	noTime = "ERR there are no locks here: their scripts may not call all that they need, above all TIME " +
		"(rename-command, or the rules of the upstream's user: +time); lockproxy check names it"
)

// Said is the error that a server has said to a script.
func Said(text string) ReplyError {
	text = scriptsWords.ReplaceAllString(text, "")
	switch lower := strings.ToLower(text); {
	case strings.HasPrefix(lower, "err unknown command 'evalsha'"),
		strings.HasPrefix(lower, "err unknown command `evalsha`"):
		return noScripts
	case strings.Contains(lower, "unknown redis command called from"),
		strings.Contains(lower, "unknown command called from"), // Valkey
		strings.Contains(lower, "the user executing the script can't run this command"):
		return noTime
	}
	if strings.HasPrefix(text, full) {
		return "OOM the Redis of this lock is at its maxmemory and takes no new locks, nor waiters for one" +
			": free memory there, or raise maxmemory; what is held can be renewed and released"
	}
	return ReplyError(text)
}

// ErrMayHold is part of each error after which the token may hold what it asked for.
var ErrMayHold = errors.New("the token may hold what it asked for all the same, until it is taken back or " +
	"its lease is over: UNLOCK it, or ask again")

// MayHold is err with ErrMayHold, unless nobody was told of the token of a: then nobody can use its hold.
func (a *Acquire) MayHold(err error) error {
	if a.Fresh || errors.Is(err, ErrMayHold) {
		return err
	}
	return fmt.Errorf("%w; %w", err, ErrMayHold)
}

// Refused says that err is an answer of the acquire script itself, or of a server that does not let the proxy
// run it, and nothing was made, or that of too few masters, and what was made is being taken back.
func Refused(err error) bool {
	var said ReplyError
	if !errors.As(err, &said) {
		return false
	}
	switch word, _, _ := strings.Cut(string(said), " "); word {
	case "LOCKTYPE", "PERMITS", "QUEUEFULL", "DEADLOCK", "NOQUORUM", "OOM", "MISCONF":
		return true
	case "TRYAGAIN":
		return said == ErrMoving
	case "ERR":
		return said == noScripts
	case "NOPERM": // of the script itself, not of a command that it calls
		return strings.Contains(string(said), "'evalsha'")
	}
	return false
}

// ErrMoving is for an Acquire that its node could not run, because the lock and the fence of its slot are at
// two nodes; ErrStrayed for one that may have been granted before that.
var (
	ErrMoving = ReplyError("TRYAGAIN the slot of this lock moves to another node, and until that is done " +
		"nothing new is granted there: ask again")
	ErrStrayed = ReplyError("TRYAGAIN the slot of this lock moves to another node, and it is not known yet " +
		"whether the lock is granted: ask again")
)

// ErrTookOver is for an Acquire with Break that was granted while its slot moved: others had the lock when
// its hold was looked for. They may have it since its lease was over, so they keep it.
var ErrTookOver = ReplyError("TRYAGAIN the slot of this lock moves: the lock was taken away and granted, " +
	"but others have it now: ask again")

// ErrAgain says that a request is to be made again, and sent: the master of the slot has another replication
// id than the request named, and may grant all the same; or the queue is so long that one script does not
// find who is first; or a later request of the same token has overtaken it.
var ErrAgain = errors.New("redlock: the request named another master, or is to be sent again")

// ErrOneByOne says that several locks cannot be taken in one step. Nothing was made, or requests for one lock
// each, with the same ids, find what was made.
var ErrOneByOne = errors.New("redlock: the locks are to be asked for one after the other")
