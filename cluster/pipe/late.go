package pipe

import (
	"slices"
	"time"
)

// This file notices replies that are late. The control plane asks all masters now and then; a request that
// waits for one of them knows earlier.

const (
	// lateLeast is how long a node may owe a reply before that is a sign of trouble, and lateFactor how many
	// times as long as it did lately.
	lateLeast  = 100 * time.Millisecond
	lateFactor = 4
	// lateTick is how often pipes are looked at while replies are due.
	lateTick = 25 * time.Millisecond
	// lateFades is the part of its habit that a node loses with each tick: half in a second or so.
	lateFades = 64
)

// lateness looks for late replies while any are due.
type lateness struct {
	*env
	forgotten forgotten
	looking   bool // lookForLate will run
}

// noteOwed notes that a pipe owes a reply again. While nothing is owed, nothing is looked at.
func (l *lateness) noteOwed() {
	if !l.looking {
		l.looking = true
		l.loop.After(lateTick, l.lookForLate)
	}
}

// lookForLate tells the control plane if a node has owed a reply for longer than it uses to. It finds pipes
// that are stuck, and has nodes asked about pipes that may be forgotten.
func (l *lateness) lookForLate() {
	l.looking = false
	now, due, late := l.loop.Now(), false, false
	l.home.lookForStuck(now)
	var silent []string // nodes
	for _, pipe := range l.byNode {
		// A node that was slow once is not expected to be so for ever.
		pipe.habit -= pipe.habit / lateFades
		due = due || pipe.calls.Len() > 0
		if pipe.conn == nil || pipe.calls.Len() == 0 {
			continue
		}
		if !pipe.late && now.Sub(pipe.progress) > max(lateLeast, lateFactor*pipe.habit) {
			pipe.late, late = true, true
		}
		if pipe.late && l.forgotten.askDue(pipe, now) {
			silent = append(silent, pipe.addr)
		}
	}
	for pipe := range l.ownPipes {
		due = due || pipe.calls.Len() > 0 && !pipe.Patient()
		if l.forgotten.askDue(pipe, now) {
			silent = append(silent, pipe.addr)
		}
	}
	slices.Sort(silent)
	for _, addr := range slices.Compact(silent) {
		l.forgotten.askAbout(addr, now)
	}
	if late {
		l.control.Suspect()
	}
	if due {
		l.noteOwed()
	}
}
