package connection

import (
	"cmp"
	"strconv"
	"time"

	"lockproxy/cluster/pubsub"
	"lockproxy/commands"
)

// staticReplies is how many bytes of replies Redis counts as the buffer that each client has. What is beyond
// goes into pieces of that size, in a list. It is PROTO_REPLY_CHUNK_BYTES of Redis.
const staticReplies = 16 << 10

// fields says which fields a line of CLIENT LIST has beside those of Redis 7.0. A field that is missing there
// is not shown, because programs that read the lines know them by the version that they were told.
type fields struct {
	libs bool // lib-name and lib-ver
	// keys that WATCH was given
	watch  bool
	valkey bool // capa and what counts since the client connected
}

// newFields is what the client expects of this upstream.
func newFields(c *commands.Call) fields {
	upstream := c.Server.Upstream()
	valkey := upstream.IsValkey(8, 1)
	return fields{libs: upstream.AtLeast(7, 2), watch: valkey || upstream.AtLeast(7, 4), valkey: valkey}
}

// appendLine appends the line of CLIENT LIST, with its end. The order is that of Redis (catClientInfoString).
// It is called on the loop of p. What the proxy does not have is given as Redis would give it for a client
// that uses none of it.
func appendLine(p *commands.Peer, b []byte, now time.Time, with fields) []byte {
	// Replies are shown as Redis would have laid them out: first its fixed buffer (obl), then a list of
	// blocks (oll) of so many bytes (omem).
	static := min(p.Replies, staticReplies)
	listed := p.Replies - static
	// As Redis polls: for writing only while something waits to be written.
	events := "r"
	if p.Stalled {
		events = "rw"
	}
	number := func(name string, n int) { b = strconv.AppendInt(append(b, name...), int64(n), 10) }
	text := func(name, s string) { b = append(append(b, name...), s...) }

	b = strconv.AppendInt(append(b, "id="...), p.ID, 10)
	text(" addr=", p.Addr)
	text(" laddr=", p.LocalAddr)
	number(" fd=", p.FD)
	text(" name=", p.Name)
	number(" age=", int(max(now.Sub(p.Created), 0)/time.Second))
	number(" idle=", int(max(p.Idle, 0)/time.Second))
	b = appendFlags(p, append(b, " flags="...))
	if with.valkey {
		text(" capa=", capabilities(p))
	}
	number(" db=", p.DB)
	number(" sub=", p.Topics[pubsub.Classic])
	number(" psub=", p.Topics[pubsub.Pattern])
	number(" ssub=", p.Topics[pubsub.Shard])
	number(" multi=", p.Transaction.Multi())
	if with.watch {
		number(" watch=", p.Transaction.Watch)
	}
	number(" qbuf=", p.Query)
	number(" qbuf-free=", p.QueryRoom)
	number(" argv-mem=", p.Args)
	number(" multi-mem=", p.Transaction.Bytes)
	number(" rbs=", p.ReplyRoom)
	number(" rbp=", p.Replies)
	number(" obl=", static)
	number(" oll=", (listed+staticReplies-1)/staticReplies)
	number(" omem=", listed)
	number(" tot-mem=", p.Memory)
	text(" events=", events)
	text(" cmd=", cmp.Or(p.Command, "NULL")) // as Redis prints it for a client that has sent none
	text(" user=", p.UserName())
	b = strconv.AppendInt(append(b, " redir="...), p.Tracking.Redir(), 10)
	number(" resp=", p.Proto)
	// A client that has named its library is shown with it at any version: so people see it at an older
	// upstream too.
	if with.libs || p.LibName != "" || p.LibVersion != "" {
		text(" lib-name=", p.LibName)
		text(" lib-ver=", p.LibVersion)
	}
	if with.valkey {
		number(" tot-net-in=", int(p.BytesIn))
		number(" tot-net-out=", int(p.BytesOut))
		number(" tot-cmds=", int(p.Commands))
	}
	return append(b, '\n')
}

// capabilities are the letters of what the client has announced with CLIENT CAPA.
func capabilities(p *commands.Peer) string {
	if p.Redirectable {
		return "r"
	}
	return ""
}

// appendFlags appends the letters that tell of the client's state, in the order of Redis. N stands for a
// client without any. Letters for masters, replicas and what the proxy has not are missing.
func appendFlags(p *commands.Peer, b []byte) []byte {
	before := len(b)
	for _, f := range [...]struct {
		is     bool
		letter byte
	}{
		{p.Monitoring, 'O'},
		{p.Subscribed(), 'P'},
		{p.Transaction.Open, 'x'},
		{p.Waits, 'b'},
		{p.Tracking.On, 't'},
		{p.Tracking.Broken, 'R'},
		{p.Tracking.BCast, 'B'},
		{p.Transaction.Voided, 'd'},
		{p.Closing, 'c'},
		{p.Unix, 'U'},
		{p.ReadOnly > 0, 'r'},
		{p.NoEvict, 'e'},
		{p.NoTouch, 'T'},
	} {
		if f.is {
			b = append(b, f.letter)
		}
	}
	if len(b) == before {
		b = append(b, 'N')
	}
	return b
}
