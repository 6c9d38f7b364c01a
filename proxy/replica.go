package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
)

// readers says which nodes may answer a command that reads keys. The reply of a replica may be older than
// what the client wrote; replies still come in the order of the commands.
func (r *router) readers(cmd *commands.Command) pipe.Readers {
	switch s := r.s; {
	case s.ReadOnly < s.w.readsFrom || !cmd.ReadsKeys():
		return pipe.MasterOnly
	case s.w.shared.Fixed.ReplicaReads == commands.ReadsAnywhere:
		return pipe.AllReaders
	}
	return pipe.ReplicasFirst
}

// readsFrom is the lowest Client.ReadOnly with which a client reads from replicas.
func readsFrom(which commands.ReplicaReads) int8 {
	for readOnly := int8(-1); readOnly <= 1; readOnly++ {
		if which.Wanted(readOnly) {
			return readOnly
		}
	}
	return 2
}
