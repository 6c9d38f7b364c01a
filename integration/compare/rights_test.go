package compare

import (
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lockproxy/integration/rig"
)

// rightsUser is a user of the upstream.
type rightsUser struct {
	name  string
	rules string
}

// rightsUsers are of each kind that people have, and some that only try the rules.
var rightsUsers = []rightsUser{
	{"everything", "~* &* +@all"},
	{"nothing", ""},
	{"onlyget", "~* +get"},
	{"prefixget", "~app:* +get"},
	{"readonly", "~* +@read"},
	{"prefix", "~app:* &app:* +@all"},
	{"prefixsafe", "~app:* &app:* +@all -script -config -slowlog -@dangerous"},
	{"readkeys", "%R~* &* +@all"},
	{"writekeys", "%W~* &* +@all"},
	{"mixedkeys", "%R~* %W~app:* &* +@all"},
	{"selectors", "~app:* +get +info (~other:* +set +del) (&secret +publish +subscribe)"},
	{"inselector", "-@all (~app:* &app:* +@all -@dangerous)"},
	{"safe", "~* &* +@all -@dangerous"},
	{"noscripts", "~* &* +@all -@scripting"},
	{"nochannels", "~* resetchannels +@all"},
	{"onechannel", "~* resetchannels &app:news +@all"},
	{"nocommands", "allkeys allchannels +@connection"},
	{"onlylocks", "~lock:* +set +get +hgetall"},
	{"pubsub", "resetkeys &* +@pubsub"},
	{"admin", "resetkeys resetchannels +@all"},
	{"subcommands", "~* &* +@all -config|set -client|kill -client|pause -acl -script|flush -info -command " +
		"+acl|whoami +command|count"},
	{"firstarg", "~* +select|0 +get"},
	{"notransactions", "~* &* +@all -@transaction"},
	{"noblocking", "~* &* +@all -@blocking -@connection"},
	{"nopass", "nopass ~app:* &* +@all -@admin"},
}

const rightsPassword = "pw"

// makeRightsUsers has each node know the users, one who is off, and the one that the proxy is.
func makeRightsUsers(t *testing.T, users []rightsUser, nodes []*rig.Server) {
	t.Helper()
	for _, n := range nodes {
		for _, u := range users {
			n.Do(t, append([]string{"ACL", "SETUSER", u.name, "reset", "on", ">" + rightsPassword},
				rulesOf(u.rules)...)...)
		}
		n.Do(t, "ACL", "SETUSER", "isoff", "reset", "off", ">"+rightsPassword, "~*", "&*", "+@all")
		n.Do(t, "ACL", "SETUSER", "lockproxy", "reset", "on", ">proxy", "~*", "&*", "+@all")
	}
}

// rulesOf cuts rules into arguments; a selector is one.
func rulesOf(text string) (rules []string) {
	for i, part := range strings.Split(text, "(") {
		selector, rest, _ := strings.Cut(part, ")")
		if i == 0 {
			selector, rest = "", part
		} else {
			rules = append(rules, "("+selector+")")
		}
		rules = append(rules, strings.Fields(rest)...)
	}
	return rules
}

// TestRights proves that a user of the upstream may do through the proxy what it may do at the upstream:
// every command and subcommand, in calls with keys of two prefixes, by users of all kinds. Never may it do
// more. Where it may do less, testdata/rights-differ.txt says why. R7
func TestRights(t *testing.T) {
	t.Parallel()
	judge := rig.StartRedis(t)
	makeRightsUsers(t, rightsUsers, []*rig.Server{judge})
	samples := samplesOfCommands(t, judge.Addr)
	denied := make(map[string][]bool)
	for _, u := range rightsUsers {
		denied[u.name] = deniedAtRedis(t, judge.Addr, u, samples)
		trustDryrun(t, judge.Addr, u, samples, denied[u.name])
	}
	differs := readRightsDiffer(t)
	var kinds atomic.Int32
	t.Cleanup(func() {
		if int(kinds.Load()) == len(upstreams) { // some differ in front of one of them alone
			differs.stale(t, samples)
		}
	})
	eachUpstream(t, rightsUsers, func(t *testing.T, _ []*rig.Server, p *rig.Proxy) {
		kinds.Add(1)
		for _, u := range rightsUsers {
			t.Run(u.name, func(t *testing.T) {
				t.Parallel()
				for i, got := range sayAll(t, p.Addr, u, samples) {
					judgeRight(t, differs, samples[i], denied[u.name][i], got)
				}
			})
		}
	})
}

// eachUpstream runs test with a proxy before one Redis and one before a cluster, whose clients are the users.
func eachUpstream(t *testing.T, users []rightsUser,
	test func(t *testing.T, nodes []*rig.Server, p *rig.Proxy)) {
	t.Helper()
	for kind, start := range upstreams {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			nodes, upstream := start(t)
			makeRightsUsers(t, users, nodes)
			test(t, nodes, rig.StartProxy(t, "--upstream", upstream, "--client-auth", "upstream",
				"--upstream-user", "lockproxy", "--upstream-password", "proxy"))
		})
	}
}

// deniedAtRedis says for each call whether the rules of the user deny it.
func deniedAtRedis(t *testing.T, addr string, u rightsUser, samples []rightsSample) (denied []bool) {
	t.Helper()
	var asked [][]string
	for _, s := range samples {
		asked = append(asked, append([]string{"ACL", "DRYRUN", u.name}, s.args...))
	}
	for i, v := range pipelined(t, rig.Connect(t, addr), asked) {
		no := strings.Contains(v.Text, "no permissions")
		if !no && v.Text != "OK" && !v.IsError("ERR") {
			t.Fatalf("%s: DRYRUN of %s: %s", u.name, samples[i], v)
		}
		denied = append(denied, no)
	}
	return denied
}

// trustDryrun runs the calls that change nothing at Redis itself, and compares what it says with DRYRUN.
func trustDryrun(t *testing.T, addr string, u rightsUser, samples []rightsSample, denied []bool) {
	t.Helper()
	c := rig.Connect(t, addr)
	c.Want(t, "OK", "AUTH", u.name, rightsPassword)
	var said [][]string
	var wants []bool
	for i, s := range samples {
		if s.readOnly && !s.apart {
			said, wants = append(said, s.args), append(wants, denied[i])
		}
	}
	for i, v := range pipelined(t, c, said) {
		if v.IsError("NOPERM") != wants[i] {
			t.Errorf("%s: %q at Redis: %.100s, and DRYRUN denies it: %v", u.name, said[i], v, wants[i])
		}
	}
}

// sayAll has a user say every call through the proxy, and returns the replies.
func sayAll(t *testing.T, addr string, u rightsUser, samples []rightsSample) []rig.Reply {
	t.Helper()
	replies := make([]rig.Reply, len(samples))
	var at []int
	var together [][]string
	for i, s := range samples {
		if !s.apart {
			at, together = append(at, i), append(together, s.args)
		}
	}
	c := rig.Connect(t, addr)
	c.Want(t, "OK", "AUTH", u.name, rightsPassword)
	for i, v := range pipelined(t, c, together) {
		replies[at[i]] = v
	}
	for i, s := range samples {
		if s.apart {
			replies[i] = sayApart(t, addr, u, s)
		}
	}
	return replies
}

// sayApart has a user say one call over a connection of its own.
func sayApart(t *testing.T, addr string, u rightsUser, s rightsSample) rig.Reply {
	t.Helper()
	c, err := rig.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := pipelined(t, c, [][]string{{"AUTH", u.name, rightsPassword}, s.args})
	if got[0].Text != "OK" {
		t.Fatalf("AUTH %s: %s", u.name, got[0])
	}
	return got[1]
}

// pipelined sends commands in one piece and returns as many replies.
func pipelined(t *testing.T, c *rig.Conn, commands [][]string) []rig.Reply {
	t.Helper()
	var sending sync.WaitGroup
	sending.Go(func() {
		for part := range slices.Chunk(commands, 64) {
			var b []byte
			for _, args := range part {
				b = append(b, rig.Encode(args...)...)
			}
			if _, err := c.Write(b); err != nil {
				return // the reader will see it
			}
		}
	})
	defer sending.Wait()
	replies := make([]rig.Reply, len(commands))
	for i := range replies {
		v, err := c.Receive(2 * rig.Patience)
		if err != nil {
			t.Errorf("%q: %v", commands[i], err)
			c.Close()
			return replies
		}
		replies[i] = v
	}
	return replies
}

// judgeRight compares what Redis would say to a call with what the proxy has said.
func judgeRight(t *testing.T, differs *rightsDiffer, s rightsSample, denied bool, got rig.Reply) {
	t.Helper()
	refused := got.IsError() && strings.Contains(got.Text, "NOPERM") || got.IsError("NOAUTH") ||
		got.IsError("ERR") && strings.Contains(got.Text, " is not available through lockproxy")
	switch {
	case denied && !refused:
		t.Errorf("wider than Redis: %s: %.100s", s, got)
	case !denied && refused && !differs.narrower(s.name):
		t.Errorf("narrower than Redis, without a reason: %s: %.200s", s, got)
	}
}

// rightsDiffer is testdata/rights-differ.txt.
type rightsDiffer struct {
	mu   sync.Mutex
	seen map[string]bool // by command
}

func readRightsDiffer(t *testing.T) *rightsDiffer {
	t.Helper()
	text, err := os.ReadFile("testdata/rights-differ.txt")
	if err != nil {
		t.Fatal(err)
	}
	d := &rightsDiffer{seen: make(map[string]bool)}
	reason := false
	for line := range strings.Lines(string(text)) {
		switch word := strings.TrimSpace(line); {
		case word == "" || line[0] == '#':
		case line[0] != '\t':
			reason = strings.HasPrefix(line, "narrower: ")
		case !reason:
			t.Fatalf("rights-differ.txt: %s has no reason", word)
		default:
			d.seen[word] = false
		}
	}
	return d
}

// narrower says whether the proxy may deny a command that Redis allows.
func (d *rightsDiffer) narrower(command string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, listed := d.seen[command]
	if listed {
		d.seen[command] = true
	}
	return listed
}

// stale tells of differences that are none any more. Not every server has all commands.
func (d *rightsDiffer) stale(t *testing.T, samples []rightsSample) {
	t.Helper()
	for command, seen := range d.seen {
		has := slices.ContainsFunc(samples, func(s rightsSample) bool { return s.name == command })
		if has && !seen && !t.Failed() {
			t.Errorf("rights-differ.txt: %s does not differ", command)
		}
	}
}
