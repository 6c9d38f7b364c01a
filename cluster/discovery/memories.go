package discovery

import (
	"context"
	"sync"

	"lockproxy/cluster"
)

// Memories asks all masters about their memory, by address. Those that do not answer are left out. It blocks
// until ctx ends at most, and no longer than one question may take.
func (u *Upstream) Memories(ctx context.Context) map[string]cluster.Memory {
	ctx, cancel := context.WithTimeout(ctx, min(lookTimeout, u.o.ConnectTimeout))
	defer cancel()
	masters := u.Topology().Masters
	said := make([]*cluster.Memory, len(masters))
	var asking sync.WaitGroup
	for i, n := range masters {
		asking.Go(func() { // ends with ctx
			if answers, err := u.asker.ask(ctx, n.Addr, u.o.Logins, cluster.MemoryQuestion); err == nil {
				m := cluster.MemoryOf(answers[0])
				said[i] = &m
			}
		})
	}
	asking.Wait()
	all := make(map[string]cluster.Memory, len(masters))
	for i, n := range masters {
		if said[i] != nil {
			all[n.Addr] = *said[i]
		}
	}
	return all
}
