// Package holds is what one connection knows of its locks: the tokens that it was granted, so that people
// need not type them (Grants), and the holds that are kept alive as long as it lives (Keepalives). A
// commands.Client has both; package lock uses them.
//
//	LOCK job KEEPALIVE --> keepHold, noteGrant --> Keepalives.Open().Keep, Grants.Owner
//	UNLOCK job         --> Grants.Token
//	QUIT, RESET        --> Keepalives.Close: all are released
//	connection broken  --> Keepalives.Break: likewise, some later
//
// Nothing here decides who has a lock; Redis does. Grants only helps people's memory and is bounded: what it
// forgets is still held and can be released by its token. Keepalives ends what keepalive.Kept renews, and
// pushes losses to clients of RESP3.
//
// Both are ready as zero values and cost nothing before the first lock. They are opened on the loop of the
// connection; after that tasks use them too, so each has a mutex of its own.
//
// Begin with Grants (grants.go), then KeptSet (keepalives.go).
package holds

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"lockproxy/redlock"
	"lockproxy/redlock/locks"
)

// The bounds of a connection's memory: of how many locks it remembers a hold that has ended, of which those
// that ended long ago are forgotten; and the length of a name above which it is not remembered at all.
const (
	maxGrantNames = 1024
	maxGrantBytes = 4096
)

// Grants knows the tokens of the locks that a connection was granted, so that people at redis-cli need not
// type them. The index of the proxy has those of the holds that go on, and Grants is their owner there. Of
// those that have ended it remembers the last one of each lock, so that its UNLOCK is answered as any late
// one is. The zero value is ready; once prepared it is safe for concurrent use.
type Grants struct{ book *grantBook }

// grantBook is the content of Grants.
type grantBook struct {
	mu      sync.Mutex
	ended   *simplelru.LRU[string, string] // tokens of holds that have ended, by name
	accused atomic.Bool                    // see Accuse
}

// The errors of Token.
var (
	errNoGrant    = errors.New("ERR this connection remembers no lock of that name: say which token")
	errManyGrants = errors.New("ERR this connection holds that lock with more than one token: say which " +
		"token")
)

// Prepare makes room for grants. It is called on the loop. A LOCK calls it; before, all other methods but
// Owner, Accuse and Accused work as for a connection without locks.
func (g *Grants) Prepare() {
	if g.book == nil {
		ended, _ := simplelru.NewLRU[string, string](maxGrantNames, nil) // it fails for a bound of 0
		g.book = &grantBook{ended: ended}
	}
}

// Owner is the connection as the owner of its holds. Grants is prepared. The index compares owners, so it is
// the same for all holds of a connection until RESET.
func (g *Grants) Owner() redlock.HoldOwner { return g.book }

// Over implements redlock.HoldOwner. It is called by the index, from any goroutine, and asks it nothing.
func (b *grantBook) Over(name, token string) {
	if len(name) > maxGrantBytes {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended.Add(name, token)
}

// lastToken is the token of the last hold of a lock that has ended, "" if it remembers none. Looking does not
// make it recent: it is forgotten by when the hold has ended.
func (b *grantBook) lastToken(name string) (token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	token, _ = b.ended.Peek(name)
	return token
}

// Forget drops a token that holds nothing any more; "": any of that lock. The hold itself is not touched.
func (g *Grants) Forget(name, token string) {
	b := g.book
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if last, ok := b.ended.Peek(name); ok && (token == "" || token == last) {
		b.ended.Remove(name)
	}
}

// Token returns the token that this connection holds the lock with, which l keeps. Tokens whose lease is over
// count only if there is no other. Of several such, the last one counts.
func (g *Grants) Token(l *locks.Locker, name string) (string, error) {
	if g.book == nil {
		return "", errNoGrant
	}
	all, alive := l.Tokens(name, g.book)
	switch {
	case len(alive) == 1:
		return alive[0], nil
	case len(alive) > 1:
		return "", errManyGrants
	case len(all) > 0:
		return all[len(all)-1], nil
	}
	if last := g.book.lastToken(name); last != "" {
		return last, nil
	}
	return "", errNoGrant
}

// Others returns the tokens that this connection holds the lock with, without token. They may be of holds
// whose leases are over. nil: there is none.
func (g *Grants) Others(l *locks.Locker, name, token string) []string {
	if g.book == nil {
		return nil
	}
	all, _ := l.Tokens(name, g.book)
	return slices.DeleteFunc(all, func(other string) bool { return other == token })
}

// Accuse notes that the log has named this connection as one that waits for itself. Grants is prepared, here
// and below.
func (g *Grants) Accuse() { g.book.accused.Store(true) }

// Accused says that Accuse was called.
func (g *Grants) Accused() bool { return g.book.accused.Load() }
