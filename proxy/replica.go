package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
)

// read sends a command that reads keys of slot to a replica, or where there is none, to the master. What a
// replica says may be older than what the client has written; the replies come in the order of the commands
// all the same.
func (r *router) read(slot int, req []byte, to pipe.Receiver, tag uint32) {
	s := r.s
	readers := pipe.ReplicasFirst
	if s.w.server.o.ReplicaReads == commands.ReadsAnywhere {
		readers = pipe.AllReaders
	}
	s.Feed(s.w.pool.Send(pipe.Request{
		Target: pipe.ToSlot(slot), Mode: s.Mode(), Bytes: req, To: to, Tag: tag,
		Readers: readers, Seed: s.ID, Resend: true,
	}))
}

// readsFrom is the least Client.ReadOnly of the clients that read from replicas.
func (o *Options) readsFrom() int8 {
	for readOnly := int8(-1); readOnly <= 1; readOnly++ {
		if o.ReplicaReads.Wanted(readOnly) {
			return readOnly
		}
	}
	return 2
}
