// Package holds is what one connection knows of its locks: the tokens that it was granted, so that people
// need not type them (Grants), and the holds that are kept alive as long as it lives (Keepalives). A
// commands.Client has both; package lock uses them.
//
//	LOCK job KEEPALIVE --> granted --> Grants.Remember, Keepalives.Open().Keep
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
// Begin with Grants (grants.go), then Kept (keepalives.go).
package holds

import (
	"errors"
	"slices"
	"sync"
	"time"

	"lockproxy/redlock"
)

// The bounds of a connection's memory: how many names of locks, of which those used long ago are forgotten;
// how many tokens of one name, of which the oldest is forgotten; and the length of a name above which it is
// not remembered at all.
const (
	maxGrantNames  = 1024
	maxGrantTokens = 8
	maxGrantBytes  = 4096
)

// Grants remembers the tokens of the locks that a connection was granted, so that people at redis-cli need
// not type them. The zero value is ready; once prepared it is safe for concurrent use.
type Grants struct{ book *grantBook }

// grantBook forgets names without a list of their order: when the map young is full it becomes old, and the
// names that were in old are forgotten. At least half of maxGrantNames are remembered.
type grantBook struct {
	mu         sync.Mutex
	young, old map[string]held // a name is in one of them: in young if it was granted recently
	accused    bool            // see Accuse
}

// held has the tokens that one lock was granted with, nearly always one.
type held struct {
	latest  grant
	earlier []grant // oldest first
}

// grant is one token that a lock was granted with.
type grant struct {
	token string
	until time.Time // when its lease is over, if it is not renewed
}

// The errors of Token.
var (
	errNoGrant    = errors.New("ERR this connection remembers no lock of that name: say which token")
	errManyGrants = errors.New("ERR this connection holds that lock with more than one token: say which " +
		"token")
)

// Prepare makes room for grants. It is called on the loop.
func (g *Grants) Prepare() {
	if g.book == nil {
		g.book = &grantBook{young: make(map[string]held), old: make(map[string]held)}
	}
}

// Remember notes that a was granted, until its lease is over.
func (g *Grants) Remember(a *redlock.Acquire, until time.Time) {
	if len(a.Name) > maxGrantBytes {
		return
	}
	b := g.book
	b.mu.Lock()
	defer b.mu.Unlock()
	now := held{latest: grant{a.Token, until}}
	if a.Mode != redlock.Write { // otherwise earlier tokens hold nothing any more
		if h, ok := b.find(a.Name); ok {
			now.earlier = h.without(a.Token)
		}
		if n := len(now.earlier); n == maxGrantTokens {
			now.earlier = slices.Delete(now.earlier, 0, 1)
		}
	}
	b.add(a.Name, now)
}

// find returns what was granted of a lock.
func (b *grantBook) find(name string) (h held, ok bool) {
	if h, ok = b.young[name]; !ok {
		h, ok = b.old[name]
	}
	return h, ok
}

func (b *grantBook) add(name string, h held) {
	delete(b.old, name)
	b.young[name] = h
	if len(b.young) == maxGrantNames/2 {
		clear(b.old)
		b.young, b.old = b.old, b.young
	}
}

// without returns all grants but that of token, oldest first.
func (h *held) without(token string) []grant {
	return slices.DeleteFunc(append(h.earlier, h.latest), func(g grant) bool { return g.token == token })
}

// Renewed notes that a hold lasts for left from now on; 0: it is gone.
func (g *Grants) Renewed(name, token string, left time.Duration) {
	b := g.book
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.find(name)
	if !ok {
		return
	}
	until := time.Now().Add(left)
	if h.latest.token == token {
		h.latest.until = until
	}
	for i := range h.earlier {
		if h.earlier[i].token == token {
			h.earlier[i].until = until
		}
	}
	b.add(name, h)
}

// Forget drops a token that holds nothing any more.
func (g *Grants) Forget(name, token string) {
	b := g.book
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.find(name)
	switch {
	case !ok:
	case len(h.earlier) == 0 && h.latest.token == token: // nearly always
		delete(b.young, name)
		delete(b.old, name)
	case len(h.earlier) > 0:
		rest := h.without(token)
		last := len(rest) - 1
		b.add(name, held{rest[last], rest[:last]})
	}
}

// Token returns the token that this connection holds the lock with. Tokens whose lease is over count only if
// there is no other.
func (g *Grants) Token(name string) (string, error) {
	b := g.book
	if b == nil {
		return "", errNoGrant
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.find(name)
	if !ok {
		return "", errNoGrant
	}
	if len(h.earlier) == 0 {
		return h.latest.token, nil
	}
	found := h.latest.token
	now, holding := time.Now(), 0
	for _, one := range append(h.earlier, h.latest) {
		if one.until.After(now) {
			found = one.token
			holding++
		}
	}
	if holding > 1 {
		return "", errManyGrants
	}
	return found, nil
}

// Others returns the tokens that this connection was granted the lock with, without token. They need not hold
// it any more.
func (g *Grants) Others(name, token string) (tokens []string) {
	b := g.book
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.find(name)
	if ok && h.latest.token != token {
		tokens = append(tokens, h.latest.token)
	}
	for _, one := range h.earlier {
		if one.token != token {
			tokens = append(tokens, one.token)
		}
	}
	return tokens
}

// Accuse notes that the log has named this connection as one that waits for itself.
func (g *Grants) Accuse() {
	g.book.mu.Lock()
	defer g.book.mu.Unlock()
	g.book.accused = true
}

// Accused says that Accuse was called.
func (g *Grants) Accused() bool {
	g.book.mu.Lock()
	defer g.book.mu.Unlock()
	return g.book.accused
}
