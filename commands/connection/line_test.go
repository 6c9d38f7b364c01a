package connection

import (
	"strings"
	"testing"
	"time"

	"lockproxy/commands"
)

func TestClientLine(t *testing.T) {
	now := time.Now()
	base := func() *commands.Peer {
		return &commands.Peer{Client: &commands.Client{ID: 3, Addr: "127.0.0.1:5", LocalAddr: "127.0.0.1:6",
			Created: now.Add(-90 * time.Second), Proto: 3}, FD: 9}
	}
	for _, test := range []struct {
		change func(p *commands.Peer)
		want   string
	}{
		{func(*commands.Peer) {}, "id=3 addr=127.0.0.1:5 laddr=127.0.0.1:6 fd=9 name= age=90 idle=0 " +
			"flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 " +
			"rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=NULL user=default redir=-1 resp=3\n"},
		{func(p *commands.Peer) {
			p.Name, p.DB, p.Idle, p.Command, p.User = "me", 4, 2999*time.Millisecond, "client|list", "ann"
			p.Query, p.QueryRoom, p.Args, p.ReplyRoom, p.Replies, p.Memory, p.Stalled = 1, 2, 3, 4,
				16384+16384+1, 5, true
			p.LibName, p.LibVersion = "lib", "1"
		}, "id=3 addr=127.0.0.1:5 laddr=127.0.0.1:6 fd=9 name=me age=90 idle=2 flags=N db=4 sub=0 psub=0 " +
			"ssub=0 multi=-1 qbuf=1 qbuf-free=2 argv-mem=3 multi-mem=0 rbs=4 rbp=32769 obl=16384 oll=2 " +
			"omem=16385 tot-mem=5 events=rw cmd=client|list user=ann redir=-1 resp=3 lib-name=lib " +
			"lib-ver=1\n"},
		{func(p *commands.Peer) {
			p.Monitoring, p.Topics, p.Waits, p.Closing, p.Unix, p.NoEvict, p.NoTouch = true, [3]int{1, 2, 3},
				true, true, true, true, true
			p.ReadOnly = 1
			p.Transaction = commands.Transaction{Open: true, Voided: true, Queued: 7, Bytes: 70}
			p.Tracking = commands.Tracking{On: true, Broken: true, BCast: true, Redirect: 12}
		}, "id=3 addr=127.0.0.1:5 laddr=127.0.0.1:6 fd=9 name= age=90 idle=0 flags=OPxbtRBdcUreT db=0 " +
			"sub=1 psub=2 ssub=3 multi=7 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=70 rbs=0 rbp=0 obl=0 " +
			"oll=0 omem=0 tot-mem=0 events=r cmd=NULL user=default redir=12 resp=3\n"},
	} {
		p := base()
		test.change(p)
		if got := string(appendLine(p, nil, now, fields{})); got != test.want {
			t.Errorf("\n got %s\nwant %s", got, test.want)
		}
	}
	if got := string(appendLine(base(), nil, now, fields{libs: true})); !strings.HasSuffix(got,
		" resp=3 lib-name= lib-ver=\n") {
		t.Errorf("of Redis 7.2: %s", got)
	}
	p := base()
	p.Transaction.Watch, p.BytesIn, p.BytesOut, p.Commands = 2, 3, 4, 5
	if got, want := string(appendLine(p, nil, now, fields{libs: true, watch: true, valkey: true})),
		"id=3 addr=127.0.0.1:5 laddr=127.0.0.1:6 fd=9 name= age=90 idle=0 flags=N capa= db=0 sub=0 "+
			"psub=0 ssub=0 multi=-1 watch=2 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 "+
			"oll=0 omem=0 tot-mem=0 events=r cmd=NULL user=default redir=-1 resp=3 "+
			"lib-name= lib-ver= tot-net-in=3 tot-net-out=4 tot-cmds=5\n"; got != want {
		t.Errorf("of Valkey:\n got %s\nwant %s", got, want)
	}
}
