package cluster

import (
	"cmp"
	"sync/atomic"

	"lockproxy/internal/resp"
)

// Login is how connections to a node authenticate. The zero value: not at all. Two are the same if their
// fields are; who compares pointers asks whether it was renewed.
type Login struct {
	User, Password string
	// Renewed: it is replaced from time to time. Existing connections take over the new one, because the
	// node may end those whose login has expired.
	Renewed bool
}

// authCommand is the AUTH command of l.
func (l *Login) authCommand() []byte {
	return resp.AppendCommandStrings(nil, "AUTH", cmp.Or(l.User, "default"), l.Password)
}

// Logins has the present Login of all connections to the same nodes, which may be replaced. Safe for
// concurrent use.
type Logins struct {
	now     atomic.Pointer[Login]
	refused chan struct{} // capacity 1: a signal that nobody has taken yet is enough
}

// NewLogins returns Logins that begin with l.
func NewLogins(l Login) *Logins {
	all := &Logins{refused: make(chan struct{}, 1)}
	all.now.Store(&l)
	return all
}

// Now is the present Login. A new Login is a new pointer. l may be nil.
func (l *Logins) Now() *Login {
	if l == nil {
		return new(Login)
	}
	return l.now.Load()
}

// Renew makes next the present Login, if it differs, and reports whether it does.
func (l *Logins) Renew(next Login) bool {
	if next == *l.now.Load() {
		return false
	}
	l.now.Store(&next)
	return true
}

// Refused signals that a node has refused the present Login: there may be a newer one.
func (l *Logins) Refused() <-chan struct{} { return l.refused }

// Refuse notes that a node has refused as. It never blocks. An older Login is no news: there is a newer one
// already.
func (l *Logins) Refuse(as *Login) {
	if l == nil || as != l.now.Load() {
		return
	}
	select {
	case l.refused <- struct{}{}:
	default:
	}
}

// NotRenewed is logged when a node refuses the login that should replace another one. The connection stays
// as it was.
const NotRenewed = "a connection could not take over the new password: it goes on with the one before, " +
	"for as long as the node lets it"

// Renewal is the command by which a connection with the Login before takes over now; nil if it has that
// already. Without Renewed a new Login is for new connections only.
func Renewal(before, now *Login) []byte {
	if now == nil || now == before || !now.Renewed {
		return nil
	}
	return now.authCommand()
}
