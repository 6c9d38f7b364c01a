package proxy

import (
	"time"

	"lockproxy/internal/lockevent"
)

// events passes on what happens to locks and settings.
type events struct {
	audit Audit  // nil: there is none
	proxy string // the id of this proxy
}

// locks returns what takes the events of locks; nil: nobody wants any.
func (e *events) locks() func(lockevent.Event) {
	if e.audit == nil {
		return nil
	}
	return func(one lockevent.Event) {
		one.Proxy = e.proxy
		e.audit.Note(one)
	}
}

// audited notes an event that is for the audit log alone.
func (e *events) audited(one lockevent.Event) {
	if e.audit == nil {
		return
	}
	one.Time, one.Proxy = time.Now(), e.proxy
	e.audit.Note(one)
}
