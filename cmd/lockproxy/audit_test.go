package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cmd/lockproxy/files"
	"lockproxy/internal/journal"
	"lockproxy/internal/lockevent"
)

// auditLines waits until the audit log has n lines, and returns them.
func auditLines(t *testing.T, path string, n int) (all []map[string]any) {
	t.Helper()
	var lines []string
	eventually(t, func() string {
		text, _ := os.ReadFile(path)
		if lines = strings.Split(strings.TrimSpace(string(text)), "\n"); len(text) > 0 && len(lines) >= n {
			return ""
		}
		return fmt.Sprintf("%s has less than %d lines:\n%s", path, n, text)
	})
	for _, line := range lines {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, fields)
	}
	return all
}

// wantLine compares some fields of a line; those that must not be there have an empty value.
func wantLine(t *testing.T, line map[string]any, fields string) {
	t.Helper()
	for _, field := range strings.Fields(fields) {
		name, want, _ := strings.Cut(field, "=")
		got, _ := line[name].(string)
		if got != want {
			t.Errorf("%s is %q, want %q: %v", name, got, want, line)
		}
	}
}

// The audit log says who took, freed, lost and broke locks, who changed settings and who failed to log in.
func TestAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	r := startReal(t, "--dev --listen 127.0.0.1:0 --admin 127.0.0.1:0 --log-lock-names yes "+
		"--requirepass pass1 --audit-log "+path)
	addr := r.log.find(t, `msg=listening addr=(\S+)\n`)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	conn := dial()
	me := conn.LocalAddr().String()
	converse(t, conn, "AUTH pass1", "CLIENT SETNAME worker", "LOCK job TOKEN verysecret PX 600000",
		"RLOCK doc TOKEN verysecret PX 600000", "UNLOCK job verysecret",
		"UNLOCK doc nobody",
		"LOCKCTL BREAK doc", "LOCK kept TOKEN verysecret KEEPALIVE")
	auditLines(t, path, 6)
	conn = dial()
	admin := conn.LocalAddr().String()
	converse(t, conn, "AUTH pass1", "CONFIG SET maxclients 500")
	converse(t, dial(), "AUTH pass1", "CONFIG SET requirepass pass2")
	all := auditLines(t, path, 8)
	for i, want := range []string{
		"event=granted lock=job mode=write token=" + "36dd2925" + " client=" + me +
			" name=worker user=default reason=",
		"event=granted lock=doc mode=read",
		"event=released lock=job mode=write client=" + me + " reason=",
		"event=broken lock=doc name=worker client=" + me,
		"event=granted lock=kept",
		"event=released lock=kept reason=disconnected name=worker client=" + me,
		"event=setting setting=maxclients value=500 client=" + admin,
		"event=setting setting=requirepass value=(not_shown)",
	} {
		if all[i]["value"] == "(not shown)" {
			all[i]["value"] = "(not_shown)"
		}
		wantLine(t, all[i], want)
		if all[i]["proxy"] == nil || all[i]["time"] == nil || all[i]["level"] != nil {
			t.Errorf("line %v", all[i])
		}
	}
	if all[0]["fence"] == nil || all[0]["fence"] != all[2]["fence"] {
		t.Errorf("fences %v, %v", all[0]["fence"], all[2]["fence"])
	}
	converse(t, dial(), "AUTH pass1")
	wantLine(t, auditLines(t, path, 9)[8], "event=login-failed user=default reason=password setting=")
	text, _ := os.ReadFile(path)
	for _, secret := range []string{"verysecret", "pass1", "pass2"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("it shows %s", secret)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st.Mode(), err)
	}
	admin = "http://" + r.log.find(t, `msg="admin listening" addr=(\S+)\n`)
	eventually(t, func() string {
		_, metrics := get(t, admin+"/metrics") // they are counted once they are in the file
		if strings.Contains(metrics, `lockproxy_audit_events_total{outcome="written"} 9`) {
			return ""
		}
		return "/metrics does not say that 9 events were written"
	})

	// A file that was moved away is made anew.
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(lookEvery) // it is looked for once in that time
	converse(t, dial(), "AUTH pass2", "LOCK job TOKEN t", "UNLOCK job t")
	wantLine(t, auditLines(t, path, 2)[1], "event=released lock=job")
}

// The names of locks are as log-lock-names says, and a path that cannot be opened ends the start.
func TestAuditLogNamesAndPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	r := startReal(t, "--dev --listen 127.0.0.1:0 --admin off --audit-log "+path)
	conn, err := net.Dial("tcp", r.log.find(t, `msg=listening addr=(\S+)\n`))
	if err != nil {
		t.Fatal(err)
	}
	converse(t, conn, "LOCK job")
	wantLine(t, auditLines(t, path, 1)[0], "event=granted lock=5e8c9902")

	config := configOf(t, "--dev --admin off --audit-log "+filepath.Join(path, "below"))
	err = newProgram(config, files.Certs{}, new(safeBuffer)).run(make(chan os.Signal))
	if err == nil || !strings.Contains(err.Error(), "audit-log: open ") {
		t.Errorf("a path that cannot be: %v", err)
	}
}

// gate is a file that takes nothing before it is open, and then writes that fail.
type gate struct {
	open chan struct{}
	fail bool
	text strings.Builder
}

func (g *gate) Write(lines []byte) (int, error) {
	<-g.open
	if g.fail {
		g.text.Write(lines[:10])
		return 10, errors.New("the disk is full")
	}
	return g.text.Write(lines)
}

// Nobody waits for the file. What cannot be written is counted, and both logs tell of it.
func TestAuditLogOfASlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		out := &gate{open: make(chan struct{})}
		a := newAudit(out, slog.New(slog.NewTextHandler(&text, nil)), journal.NamesWhole)
		go a.run()
		const many = 3 * lockevent.MostQueued
		event := lockevent.Event{Kind: lockevent.Granted, Lock: "job", Time: time.Now()}
		for range many {
			a.Note(event)
		}
		synctest.Wait()
		close(out.open)
		time.Sleep(2 * auditTell)
		a.Note(event)
		synctest.Wait()
		written, lost := a.Counts()
		told := uint64(strings.Count(out.text.String(), `"event":"missed","count":`))
		if lost < lockevent.MostQueued || written-told+lost != many+1 || told == 0 {
			t.Errorf("%d written, %d lost", written, lost)
		}
		if n := strings.Count(out.text.String(), "\n"); n != int(written) {
			t.Errorf("%d lines, %d written", n, written)
		}
		if !strings.Contains(text.String(), "audit log: events could not be written") {
			t.Errorf("nobody tells of it: %s", text.String())
		}
		out.fail = true
		for range 5 {
			a.Note(event)
			a.Note(lockevent.Event{Kind: lockevent.Waiting, Lock: "job"}) // is not written
		}
		synctest.Wait()
		if _, after := a.Counts(); after != lost+5 {
			t.Errorf("%d lost, then %d", lost, after)
		}
		out.fail = false
		a.close()
		time.Sleep(2 * auditTell)
	})
}

// Who guesses passwords cannot fill the disk.
func TestAuditLogOfAnAttack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &gate{open: make(chan struct{})}
		close(out.open)
		a := newAudit(out, slog.New(slog.DiscardHandler), journal.NamesWhole)
		go a.run()
		for range 1000 {
			a.Note(lockevent.Event{Kind: lockevent.LoginFailed, Time: time.Now()})
		}
		time.Sleep(2 * journal.Each)
		a.close()
		if n := strings.Count(out.text.String(), "\n"); n != journal.Most+1 ||
			!strings.Contains(out.text.String(), `"event":"login-failed","count":990`) {
			t.Errorf("%d lines: %s", n, out.text.String())
		}
	})
}

// What is left of a line that was cut in half does not spoil the next one.
func TestAuditFileAfterATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	f := &auditFile{path: path, log: slog.New(slog.DiscardHandler), looked: time.Now()}
	if err := f.open(); err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("whole\nha"))
	f.Write([]byte("next\n"))
	f.Write([]byte("last\n"))
	if text, _ := os.ReadFile(path); string(text) != "whole\nha\nnext\nlast\n" {
		t.Errorf("%q", text)
	}
}
