package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockproxy/cmd/lockproxy/auditlog"
	"lockproxy/cmd/lockproxy/files"
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
	time.Sleep(auditlog.LookEvery) // it is looked for once in that time
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
