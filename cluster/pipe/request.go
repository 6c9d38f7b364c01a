package pipe

// Target says which node a request goes to. The zero value: any master.
type Target struct {
	kind targetKind
	n    int32
	addr string
}

type targetKind uint8

const (
	toAny targetKind = iota
	toSlot
	toMaster
	toShard
	toNode
)

// ToSlot is the master of slot n, or any master if n is negative.
func ToSlot(n int) Target { return Target{kind: toSlot, n: int32(n)} }

// ToMaster is the i-th of Topology().Masters and no other node; any master if there are fewer.
func ToMaster(i int) Target { return Target{kind: toMaster, n: int32(i)} }

// ToShard is the i-th of Topology().Masters; if that fails, the node that has taken its place. It is for
// requests without keys.
func ToShard(i int) Target { return Target{kind: toShard, n: int32(i)} }

// ToNode is the node at addr and no other, whether it is a master or not.
func ToNode(addr string) Target { return Target{kind: toNode, addr: addr} }

// Any says that t is not a particular node.
func (t Target) Any() bool { return t.kind == toAny || t.kind == toSlot && t.n < 0 }

// Readers says which nodes may answer a request to a slot.
type Readers uint8

const (
	MasterOnly    Readers = iota
	ReplicasFirst         // a replica that is fit, or the master if there is none; the request only reads
	AllReaders            // the same, but the master has its share of the reads too
)

// Request is one whole command and how it is sent.
type Request struct {
	Target Target
	Mode   Mode   // of the connection
	Bytes  []byte // copied, unless Kept is set or they are more than loop.Shared
	Kept   bool   // nobody writes to Bytes any more; what lies side by side in memory is written together
	To     Receiver
	Tag    uint32 // under which To gets the reply
	Resend bool   // the command may run twice, so it is sent again when its reply was lost
	Splits bool   // To gets TRYAGAIN at once, and asks for one key at a time then
	Script bool   // it may be an EVALSHA, so its script is loaded ahead where that may be missing

	Readers Readers
	Seed    int64 // chooses among the readers; the choice stays while the reader is fit
}
