package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// tenants are the users whom a proxy is at its servers, one behind the other, as a rotation of secrets has
// them: the next one is made, the proxy is told, the one before is deleted, which ends what it has open.
type tenants struct {
	nodes []*rig.Server
	file  string
	name  string
	n     int
}

func (u *tenants) user() string   { return fmt.Sprint(u.name, u.n) }
func (u *tenants) before() string { return fmt.Sprint(u.name, u.n-1) }
func (u *tenants) secret() string { return fmt.Sprint("sesame-", u.n, u.n, u.n) }

// next makes the next user and tells it.
func (u *tenants) next(t *testing.T) {
	t.Helper()
	u.n++
	for _, node := range u.nodes {
		node.Do(t, "ACL", "SETUSER", u.user(), "on", ">"+u.secret(), "~*", "&*", "+@all")
	}
	u.say(t, u.user()+"\n"+u.secret()+"\n")
}

// say writes the file in one step.
func (u *tenants) say(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(u.file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(u.file+".new", u.file); err != nil {
		t.Fatal(err)
	}
}

// connected are the connections that a user has, those left out whose last command is one of but.
func (u *tenants) connected(t *testing.T, user string, but ...string) (lines []string) {
	t.Helper()
	for _, node := range u.nodes {
	next:
		for line := range strings.Lines(node.Do(t, "CLIENT", "LIST").Text) {
			if !strings.Contains(line, " user="+user+" ") && !strings.Contains(line, " user="+user+"\n") {
				continue
			}
			for _, command := range but {
				if strings.Contains(line, " cmd="+command+" ") {
					continue next
				}
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// left waits until the user before has no connections, but those in a command.
func (u *tenants) left(t *testing.T, but ...string) {
	t.Helper()
	before := u.before()
	end := time.Now().Add(rig.Patience)
	for len(u.connected(t, before, but...)) > 0 {
		if time.Now().After(end) {
			t.Fatalf("%s is still there:\n%s", before, strings.Join(u.connected(t, before, but...), ""))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// drop deletes the user before.
func (u *tenants) drop(t *testing.T) {
	t.Helper()
	for _, node := range u.nodes {
		node.Do(t, "ACL", "DELUSER", u.before())
	}
}

// The password of the upstream comes from a file, that of the masters of RedLock from a command. Both change
// while everything that a connection may be used for goes on, and the user before is deleted.
func TestPasswordsThatExpire(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		passwordsThatExpire(t, "single", []*rig.Server{rig.StartRedis(t)})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		passwordsThatExpire(t, "cluster", rig.StartCluster(t, 3, 0).Nodes)
	})
}

// The password of the Sentinels is renewed by itself, although it was that of the upstream at first. When the
// user before is deleted, the Sentinels still say which node is the master.
func TestSentinelPasswordsThatExpire(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"file", "command"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g := rig.StartSentinels(t)
			dir := t.TempDir()
			up := &tenants{nodes: []*rig.Server{g.Master, g.Replica}, file: filepath.Join(dir, "up"),
				name: "tenant"}
			watchers := &tenants{nodes: g.Sentinels, file: filepath.Join(dir, "watchers"), name: "tenant"}
			up.next(t)
			watchers.next(t)
			said := watchers.file
			if kind == "command" {
				said = "cat '" + said + "'"
			}
			p := rig.StartProxy(t, "--upstream", g.Addrs(), "--upstream-password-file", up.file,
				"--sentinel-password-"+kind, said, "--password-command-interval", "1s")
			c := rig.Connect(t, p.Addr)
			c.Must(t, "SET", "k", "1")
			for range 2 {
				watchers.next(t)
				watchers.left(t, "info") // which the user of the upstream has asked at first
				watchers.drop(t)
			}
			if len(up.connected(t, "tenant1")) == 0 {
				t.Error("the upstream has another user now")
			}
			g.Master.Kill()
			g.Promoted(t)
			rig.Eventually(t, rig.Patience, "the proxy has followed", func() bool {
				v, err := c.Do("SET", "k", "2")
				return err == nil && v.Text == "OK"
			})
			if seen := p.Log.String(); strings.Contains(seen, "sesame") {
				t.Errorf("a password is in the log:\n%s", seen)
			}
		})
	}
}

func passwordsThatExpire(t *testing.T, kind string, nodes []*rig.Server) {
	dir := t.TempDir()
	up := &tenants{nodes: nodes, file: filepath.Join(dir, "up"), name: "tenant"}
	red := &tenants{nodes: oldMasters(), file: filepath.Join(dir, "red"), name: "tenant-" + kind}
	up.next(t)
	red.next(t)
	p := startOldRedlock(t, nodes[0].Addr, "--redlock-prefix", "r:", "--upstream-password-file", up.file,
		"--redlock-password-command", "cat '"+red.file+"'", "--password-command-interval", "1s")

	// What connections may be used for.
	var failed atomic.Pointer[string]
	end, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with end
		defer close(ended)
		c, err := rig.Dial(p.Addr)
		for i := 0; err == nil; i++ {
			select {
			case <-end:
				c.Close()
				return
			case <-time.After(time.Millisecond):
			}
			var v rig.Reply
			if v, err = c.Do("INCR", fmt.Sprint("count", i%10)); err == nil && v.Kind != ':' {
				err = fmt.Errorf("INCR: %v", v)
			}
		}
		text := err.Error()
		failed.Store(&text)
	}()
	sub := rig.Connect(t, p.Addr)
	sub.Must(t, "SUBSCRIBE", "news")
	tracker := rig.Connect(t, p.Addr)
	tracker.Must(t, "HELLO", "3")
	tracker.Must(t, "CLIENT", "TRACKING", "ON")
	holder, redJob := rig.Connect(t, p.Addr), "r:"+kind
	for name, px := range map[string]string{"job": "9000", redJob: "20000"} {
		holder.Must(t, "LOCK", name, "TOKEN", "mine", "PX", px, "KEEPALIVE")
	}
	waiter := rig.Connect(t, p.Addr)
	if err := waiter.Send("LOCK", "job", "WAIT", "600000"); err != nil {
		t.Fatal(err)
	}
	rig.WaitersOf(t, p.Addr, "job", 1)
	blocked := rig.Connect(t, p.Addr)
	if err := blocked.Send("BLPOP", "list", "0"); err != nil {
		t.Fatal(err)
	}
	tx := rig.Connect(t, p.Addr)
	tx.Must(t, "MULTI")
	tx.Must(t, "SET", "tx", "1")
	other := rig.Connect(t, p.Addr)

	for round := range 2 {
		tracker.Must(t, "GET", "tracked")
		up.next(t)
		red.next(t)
		red.left(t)
		if round == 0 { // in BLPOP and MULTI the node takes no AUTH
			up.left(t, "blpop", "multi", "set")
			if v := tx.Must(t, "EXEC"); len(v.Elems) != 1 {
				t.Errorf("EXEC: %v", v)
			}
			other.Must(t, "RPUSH", "list", "x")
			if v, err := blocked.Receive(rig.Patience); err != nil || len(v.Elems) != 2 {
				t.Errorf("BLPOP: %v %v", v, err)
			}
		}
		up.left(t)
		up.drop(t)
		red.drop(t)

		text := fmt.Sprint("text", round)
		other.Must(t, "PUBLISH", "news", text)
		if v, err := sub.Receive(rig.Patience); err != nil || len(v.Elems) != 3 || v.Elems[2].Text != text {
			t.Errorf("subscriber: %v %v", v, err)
		}
		other.Must(t, "SET", "tracked", text)
		if v, err := tracker.Receive(rig.Patience); err != nil || v.Kind != '>' ||
			v.Elems[0].Text != "invalidate" {
			t.Errorf("tracker: %v %v", v, err)
		}
		for _, name := range []string{"job", redJob} {
			if v := other.Must(t, "LOCKCTL", "CHECK", name, "mine"); v.Null {
				t.Errorf("%s is lost", name)
			}
			fresh := rig.Connect(t, p.Addr)
			fresh.Must(t, "LOCK", fmt.Sprint(name, round), "PX", "20000")
		}
	}
	renewed(t, other, "job", "mine")
	holder.Must(t, "UNLOCK", "job", "mine")
	if v, err := waiter.Receive(rig.Patience); err != nil || len(v.Elems) != 4 {
		t.Errorf("LOCK WAIT: %v %v", v, err)
	}

	// What gives no password changes nothing, and is told.
	up.say(t, "")
	p.Logged(t, `(level=WARN msg="no new password.*upstream-password-file)`)
	red.say(t, "a\nb\nc\n")
	p.Logged(t, `(level=WARN msg="no new password.*redlock-password-command)`)
	other.Must(t, "GET", "tracked")
	close(end)
	<-ended
	if text := failed.Load(); text != nil {
		t.Error(*text)
	}
	_, ready, _ := p.Get("/readyz")
	seen := starved.ReplaceAllString(p.Log.String(), "") + ready +
		other.Must(t, "CONFIG", "GET", "*password*").String()
	for _, sign := range []string{"sesame", "connection lost", "node lost", "master is away"} {
		if strings.Contains(seen, sign) {
			t.Errorf("%q:\n%s", sign, seen)
		}
	}
}

// starved are lines of the log about a node that had no time to answer: no password is the reason.
var starved = regexp.MustCompile(`(?m)^.*(no sign of life|i/o timeout|deadline exceeded).*$`)
