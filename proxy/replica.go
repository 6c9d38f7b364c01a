package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
)

// readers are who may answer a command that reads keys. What a replica says may be older than what the client
// has written; the replies come in the order of the commands all the same.
func (r *router) readers(cmd *commands.Command) pipe.Readers {
	switch s := r.s; {
	case s.ReadOnly < s.w.readsFrom || !cmd.ReadsKeys():
		return pipe.MasterOnly
	case s.w.server.o.ReplicaReads == commands.ReadsAnywhere:
		return pipe.AllReaders
	}
	return pipe.ReplicasFirst
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
