package lock

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"lockproxy/commands"
	"lockproxy/commands/holds"
	"lockproxy/internal/sleep"
	"lockproxy/redlock"
)

// This file is LOCK with NOTIFY, which waits beside its client:
//
//	LOCK job TOKEN t WAIT 5000 NOTIFY news --> QUEUED; awaitBeside: a goroutine
//	      granted job 1718000000000000 29998 1 \
//	      timeout job                           > one of them, as a message on news
//	      error job TRYAGAIN ...               /
//
// A client may go by a grant that it was told of, and cannot by one that it was not. So a hold stays if
// anybody may have got its message, and is given back if nobody can have. Only a message that was certainly
// not published is published again.

// notice is what NOTIFY asks for. It belongs to the acquisition. wait takes room of the connection and of the
// process until its End.
type notice struct {
	channel string
	by      commands.Announcer
	wait    *holds.Wait
	kept    bool // the connection keeps a hold of the token alive already
}

// It says that a message will come, and nothing about the lock.
var replyQueued = []byte("+QUEUED\r\n")

// Times of messages. The pauses double from sendPause to sendPauses.
const (
	sendTimeout = 15 * time.Second // for one PUBLISH, longer than the pipes try
	sendPause   = 50 * time.Millisecond
	sendPauses  = time.Second      // the longest pause between two attempts
	sendFor     = 30 * time.Second // how long a message that is no grant is tried
)

// enough is the part of a lease that must be left for a grant to be told at a second attempt. A client needs
// time to hear of it and to do something.
const enough = 3

var (
	// errUnheard is for a grant that nobody was told of.
	errUnheard = errors.New("redlock: nobody has heard of the grant")
	// errLate is for a grant whose message could not be published while enough of the lease was left.
	errLate = redlock.ReplyError("TRYAGAIN the lock was granted and given back, for the message could not " +
		"be published in time: ask again")
)

// lockRights are the right to read and write the key, with NOTIFY the right to publish on that channel, and
// with BREAK that of LOCKCTL BREAK. Options are found as secretTokens finds them: by their words, whatever
// the verb takes. Too many rights are asked for at worst.
func lockRights(l *Lockers) func(args [][]byte) []commands.Right {
	return func(args [][]byte) []commands.Right {
		rights := []commands.Right{writeRight(l.keyOf(args[1]))}
		for i := 2; i < len(args); i++ {
			o := optionOf(args[i])
			switch {
			case o == nil:
			case o.word == "BREAK":
				rights = append(rights, breakRights(l.keyOf(args[1]))...)
			case o.shown.Type != "pure-token":
				if i++; o.word == "NOTIFY" && i < len(args) {
					rights = append(rights, commands.NewRight("PUBLISH", string(args[i]), "*"))
				}
			}
		}
		return rights
	}
}

// registerWait notes that the LOCK may wait, if it has NOTIFY. It fails if there is no room, and then nothing
// is taken. Called on the loop before the first attempt, so that a token cannot wait twice.
func (q *acquisition) registerWait(c *commands.Call) (err error) {
	n := q.notice
	if n == nil {
		return nil
	}
	n.by, n.kept = q.all.Announce, c.Client.Keepalives.Keeper(q.Name, q.Token) != ""
	n.wait, err = c.Client.Waits.Begin(q.all.Waits, q.Name, q.Token, len(n.channel)+len(q.Meta))
	return err
}

// unregisterWait notes that the LOCK need not wait. Then it is one without NOTIFY. Its outcome is then the
// answer to the command, and no message.
func (q *acquisition) unregisterWait() {
	if n := q.notice; n != nil {
		n.wait.End()
		q.notice = nil
	}
}

// awaitBeside is the goroutine of a LOCK whose client was answered QUEUED. It ends with the wait and its
// message. The client may have gone, or go meanwhile: its Waits end ctx then, and the message is an error, to
// which others may listen.
func (q *acquisition) awaitBeside() {
	n := q.notice
	defer n.wait.End()
	ctx := n.wait.Context()
	g, ok, err := q.waitOrTry(ctx)
	// As without NOTIFY: a grant that replicas must have is none before they do.
	confirmed := g
	if err == nil && ok {
		confirmed, err = q.l.Confirm(ctx, &q.Acquire, g)
	}
	if err == nil && ok {
		err = q.tellGrant(ctx, g, confirmed)
		ok = err == nil
	}
	switch {
	case ok, err == errUnheard:
	case err == nil:
		q.noteRefusal(nil)
		q.all.Ledger.noteTimedOut(&q.Acquire, q.came)
		n.sendMessage(ctx, "timeout "+q.Name)
	default:
		q.noteRefusal(err)
		n.sendMessage(ctx, "error "+q.Name+" "+errorText(err))
	}
}

// errorText is what an error reply says of err.
func errorText(err error) string {
	return string(bytes.TrimSpace(commands.ErrorReply(err)[1:]))
}

// tellGrant publishes that the lock was granted g, with the ttl of confirmed. It returns nil if somebody may
// have got the message, and otherwise has given the grant back. errUnheard: the one message is published.
// Each attempt to publish tells the ttl that is left at that moment. Attempts are made as long as nobody can
// have heard of the grant.
func (q *acquisition) tellGrant(ctx context.Context, g, confirmed redlock.Grant) error {
	if confirmed.Left(time.Now()) <= 0 {
		q.undoAcquire()
		return q.MayHold(errGrantOver)
	}
	if err := q.keepHold(g); err != nil { // before the client can unlock it
		return err
	}
	q.notice.wait.Leave() // before the client can ask again
	for pause := sendPause; ; pause = min(2*pause, sendPauses) {
		left := confirmed.Left(time.Now())
		if ctx.Err() != nil || left <= 0 {
			q.giveBack()
			// A ctx ends with ErrUnlocked, ErrEnded or ErrDraining, all of which clients are told.
			return q.MayHold(cmp.Or(context.Cause(ctx), error(errLate)))
		}
		heard, err := q.notice.publishMessage(fmt.Sprintf("granted %s %d %d %d", q.Name, g.Fence,
			left.Milliseconds(), g.Count))
		switch heard {
		case commands.Told:
			q.noteGrant(&g, time.Now())
			return nil
		// To publish it again could tell somebody twice, and to give it back could take it from a client at
		// work.
		case commands.InDoubt:
			q.l.TellUntold(q.Name, "the lock stays taken until its lease is over: nobody knows whether "+
				"its client was told", err)
			q.noteGrant(&g, time.Now())
			// It is renewed once at most, and counts as lost after that (keepalive.Max): a client that was
			// not told would never free it, and one that was told hears that it is lost.
			if q.Keep {
				q.terms.Max = 1
				q.keepHold(g) // an error has freed it
			}
			return nil
		// Nobody listens on that channel, so nobody will ever unlock it.
		case commands.Unheard:
			q.giveBack()
			q.noteRefusal(errUnheard)
			return errUnheard
		}
		// Unsent: it is tried again while enough is left of the lease.
		q.l.TellUntold(q.Name, "a client could not be told yet that it has the lock", err)
		if confirmed.Left(time.Now())-pause < q.Lease/enough {
			q.giveBack()
			return q.MayHold(errLate)
		}
		sleep.For(ctx, pause)
	}
}

// giveBack takes back a grant that nobody was told of. A hold that was kept alive before goes on as it was.
// It was granted, for a moment, and events say both.
func (q *acquisition) giveBack() {
	q.all.Ledger.noteGranted(&q.Acquire, q.fence, q.came, time.Now())
	q.all.Ledger.noteUndone(&q.Acquire, q.fence)
	if q.Keep && !q.notice.kept {
		q.l.Renewer.Unlocked(q.Name, q.Token, q.Keeper)
	}
	q.undoAcquire()
}

// publishMessage publishes one message. It does not depend on the wait's context: a message about its end has
// to be sent behind it.
func (n *notice) publishMessage(message string) (commands.Heard, error) {
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	return n.by.Announce(ctx, n.channel, message)
}

// sendMessage publishes a message that leaves nothing behind. If it cannot be published now it is tried
// again, but not while the proxy ends. What has perhaps been heard is not sent twice.
func (n *notice) sendMessage(ctx context.Context, message string) {
	n.wait.Leave()
	over := time.Now().Add(sendFor)
	for pause := sendPause; ; pause = min(2*pause, sendPauses) {
		heard, _ := n.publishMessage(message)
		if heard != commands.Unsent || errors.Is(context.Cause(ctx), commands.ErrDraining) ||
			time.Now().Add(pause).After(over) {
			return
		}
		time.Sleep(pause)
	}
}
