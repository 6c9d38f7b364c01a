// Package holds is what one connection knows of its locks: the tokens that it was granted, so that people
// need not type them (Grants), and the holds that are kept alive for as long as it lives (Keepalives). A
// commands.Client has both; package lock uses them.
//
//	LOCK job KEEPALIVE --> granted --> Grants.Remember, Keepalives.Open().Keep
//	UNLOCK job         --> Grants.Token
//	connection closed  --> Keepalives.Close: all are released
//
// Nothing here decides who has a lock: that does Redis. Grants is a help to the memory of people, with
// bounds: what is forgotten is still held, and can be released by its token. Keepalives notes what
// redlock.Kept renews, and what was lost nevertheless, until the client has been told.
//
// Both are ready as zero values and cost nothing before the first lock. They are opened on the loop of the
// connection. From then on tasks use them, too, so each has a lock of its own.
//
// Begin reading at Grants (grants.go), then Kept (keepalives.go).
package holds

import (
	"errors"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"lockproxy/redlock"
)

// What bounds the memory of a connection: the names of locks, the least recently used
// of which is forgotten; the tokens of one name, of which the oldest is; and the bytes of a
// name, above which it is not remembered at all.
const (
	maxGrantNames  = 1024
	maxGrantTokens = 8
	maxGrantBytes  = 4096
)

// Grants remembers the tokens that a connection was granted locks with, so that
// people at redis-cli need not type them. The zero value is ready; once prepared it is
// safe for concurrent use.
type Grants struct{ book *grantBook }

type grantBook struct {
	mu     sync.Mutex
	byName *lru.Cache[string, []grant]
}

// grant is one token that a lock was granted with.
type grant struct {
	token string
	until time.Time // when its lease is over, unless it is renewed
}

// What token says when it cannot name one.
var (
	errNoGrant    = errors.New("ERR this connection remembers no lock of that name: say which token")
	errManyGrants = errors.New("ERR this connection holds that lock with more than one token: say which " +
		"token")
)

// Prepare makes room. It is called on the loop.
func (g *Grants) Prepare() {
	if g.book == nil {
		byName, _ := lru.New[string, []grant](maxGrantNames) // fails for sizes below 1 only
		g.book = &grantBook{byName: byName}
	}
}

// Remember notes that a was granted.
func (g *Grants) Remember(a *redlock.Acquire) {
	if len(a.Name) > maxGrantBytes {
		return
	}
	b := g.book
	b.mu.Lock()
	defer b.mu.Unlock()
	all, _ := b.byName.Get(a.Name)
	if a.Mode == redlock.Write {
		all = all[:0] // whatever they were, they hold nothing any more
	}
	all = slices.DeleteFunc(all, func(h grant) bool { return h.token == a.Token })
	if len(all) == maxGrantTokens {
		all = slices.Delete(all, 0, 1)
	}
	b.byName.Add(a.Name, append(all, grant{a.Token, time.Now().Add(a.Lease)}))
}

// Renewed notes that a hold lasts for left from now on; 0: it is no more.
func (g *Grants) Renewed(name, token string, left time.Duration) {
	g.change(name, func(all []grant) []grant {
		for i := range all {
			if all[i].token == token {
				all[i].until = time.Now().Add(left)
			}
		}
		return all
	})
}

// Forget drops a token that holds nothing any more.
func (g *Grants) Forget(name, token string) {
	g.change(name, func(all []grant) []grant {
		return slices.DeleteFunc(all, func(h grant) bool { return h.token == token })
	})
}

func (g *Grants) change(name string, f func([]grant) []grant) {
	if g.book == nil {
		return
	}
	b := g.book
	b.mu.Lock()
	defer b.mu.Unlock()
	all, ok := b.byName.Get(name)
	if !ok {
		return
	}
	if all = f(all); len(all) == 0 {
		b.byName.Remove(name)
	} else {
		b.byName.Add(name, all)
	}
}

// Token is the one that this connection holds the lock with. Tokens whose lease is over
// count only if there is no other.
func (g *Grants) Token(name string) (string, error) {
	if g.book == nil {
		return "", errNoGrant
	}
	b := g.book
	b.mu.Lock()
	defer b.mu.Unlock()
	all, _ := b.byName.Get(name)
	if len(all) == 0 {
		return "", errNoGrant
	}
	found := all[len(all)-1].token
	now, holding := time.Now(), 0
	for _, h := range all {
		if h.until.After(now) {
			found = h.token
			holding++
		}
	}
	if holding > 1 {
		return "", errManyGrants
	}
	return found, nil
}
