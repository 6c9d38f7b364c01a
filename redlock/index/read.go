package index

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"lockproxy/internal/glob"
	"lockproxy/internal/resp"
)

const (
	// pageSize is how many members of a set are asked for at once.
	pageSize = "1000"
	// mostNames bounds what Names returns.
	mostNames = 1 << 20
)

// ErrUnable is that the sets cannot be used: look through the keys instead.
var ErrUnable = errors.New("index: cannot be used")

// errTooMany is for an index that is too large to be read.
var errTooMany = fmt.Errorf("index: it has more than %d names", mostNames)

// Names returns the names of locks that may be held and match a glob of Redis, sorted. It has all that this
// proxy has granted, and what others had granted some half a second ago, which may have been free for some
// seconds. After ErrUnable the keys are to be looked through. It blocks.
func (x *Index) Names(ctx context.Context, pattern string) ([]string, error) {
	if x.upstream == nil {
		return nil, ErrUnable
	}
	if why := x.unable.Load(); why != nil {
		return nil, fmt.Errorf("%w: %s", ErrUnable, *why)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &reading{x: x, pattern: []byte(pattern), names: make(map[string]bool)}
	var all sync.WaitGroup
	for i := range x.sets {
		all.Go(func() {
			if err := r.readSet(ctx, &x.sets[i]); err != nil {
				cancel(err) // which ends the others
			}
		})
	}
	all.Wait()
	if ctx.Err() == nil {
		x.notes.eachName(func(name string) {
			if err := r.addName(x.canonical(name)); err != nil {
				cancel(err)
			}
		})
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(r.names)), nil
}

// reading is one call of Names. Its sets are read at the same time, each by a goroutine that ends with Names.
type reading struct {
	x       *Index
	pattern []byte

	mu    sync.Mutex
	names map[string]bool
}

// readSet reads a set whole. ZSCAN may show a member twice, and shows all that were there all the time.
func (r *reading) readSet(ctx context.Context, from *sortedSet) error {
	for cursor := "0"; ; {
		args := []string{"ZSCAN", from.key, cursor, "COUNT", pageSize}
		// A pattern of stars is left out. What Redis matches is the member, with the id of a proxy in front.
		if p := string(r.pattern); strings.Trim(p, "*") != "" {
			args = append(args, "MATCH", strings.Repeat("?", idBytes)+":"+p)
		}
		v, err := r.x.askSet(ctx, from, resp.AppendCommandStrings(nil, args...))
		switch {
		case err != nil && forbidden(err):
			r.x.tellUnable(err)
			return fmt.Errorf("%w: %w", ErrUnable, err)
		case err != nil:
			return err
		case len(v.Elems) != 2:
			return errors.New("index: the reply to ZSCAN makes no sense")
		}
		for i := 0; i+1 < len(v.Elems[1].Elems); i += 2 {
			member := v.Elems[1].Elems[i].Text()
			// The notes have what this proxy has written, and know what is free since.
			if len(member) > idBytes && member[idBytes] == ':' && member[:idBytes] != r.x.id {
				if err := r.addName(member[idBytes+1:]); err != nil {
					return err
				}
			}
		}
		if cursor = v.Elems[0].Text(); cursor == "0" {
			return nil
		}
	}
}

// addName adds a name that matches. The pattern is matched here too, because names of this proxy do not come
// from Redis.
func (r *reading) addName(name string) error {
	if !glob.Match(r.pattern, []byte(name)) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[name] = true; len(r.names) > mostNames {
		return errTooMany
	}
	return nil
}

// eachName calls f for the name of each lock that is noted. f is called with a shard at rest. Locks that are
// waited for belong to them, though this proxy may have granted them to nobody.
func (n *notes) eachName(f func(name string)) {
	for i := range n.shards {
		s := &n.shards[i]
		var names []string
		s.mu.Lock()
		for _, k := range s.notes {
			if k.holds[0].granted { // a note has a hold
				names = append(names, k.name)
			}
		}
		for w := range s.waits {
			names = append(names, w.name)
		}
		s.mu.Unlock()
		for _, name := range names {
			f(name)
		}
	}
}
