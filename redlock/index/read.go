package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"lockproxy/internal/glob"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
)

// mostMembers bounds what is read of a set: two million names in all.
const mostMembers = 1 << 21 / keys / mostInPack

// ErrUnable is that the sets cannot be used: look through the keys instead.
var ErrUnable = errors.New("index: cannot be used")

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
	var all sync.WaitGroup
	var sets [keys]resp.Value
	var errs [keys]error
	for i := range x.sets {
		all.Go(func() {
			sets[i], errs[i] = x.askSet(ctx, &x.sets[i], "ZRANGE", "0", strconv.Itoa(mostMembers))
		})
	}
	all.Wait()
	if err := pickError(errs[:]); forbidden(err) {
		x.tellUnable(err)
		return nil, fmt.Errorf("%w: %w", ErrUnable, err)
	} else if err != nil {
		return nil, err
	}
	names, match := make(map[string]bool), []byte(pattern)
	addName := func(name []byte) {
		if name = redlock.Unbraced(name); glob.Match(match, name) {
			names[string(name)] = true
		}
	}
	for _, set := range sets {
		if len(set.Elems) > mostMembers {
			return nil, fmt.Errorf("index: a set has more than %d members", mostMembers)
		}
		for _, member := range set.Elems {
			// The notes have what this proxy has written, and know what is free since.
			if !bytes.HasPrefix(member.Str, []byte(x.id)) {
				eachName(member.Str, addName)
			}
		}
	}
	for _, name := range x.notes.noted() {
		addName([]byte(name))
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// noted are the names of the locks that are noted. Locks that are waited for belong to them, though this
// proxy may have granted them to nobody.
func (n *notes) noted() (names []string) {
	for i := range keys {
		n.eachShard(i, func(s *noteShard) {
			for _, k := range s.notes {
				if k.holds[0].granted { // a note has a hold
					names = append(names, k.name)
				}
			}
			for w := range s.waits {
				names = append(names, w.name)
			}
		})
	}
	return names
}
