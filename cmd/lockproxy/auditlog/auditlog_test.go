package auditlog

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/journal"
	"lockproxy/internal/lockevent"
)

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
		a := newLog(out, slog.New(slog.NewTextHandler(&text, nil)), journal.NamesWhole)
		const many = 3 * lockevent.MostQueued
		event := lockevent.Event{Kind: lockevent.Granted, Lock: "job", Time: time.Now()}
		for range many {
			a.Note(event)
		}
		synctest.Wait()
		close(out.open)
		time.Sleep(2 * tellEvery)
		a.Note(event)
		synctest.Wait()
		written, lost := a.Counts()
		told := uint64(strings.Count(out.text.String(), `"event":"missed","count":`))
		if lost < lockevent.MostQueued || written+lost != many+1 || told == 0 {
			t.Errorf("%d written, %d lost", written, lost)
		}
		if n := strings.Count(out.text.String(), "\n"); n != int(written+told) {
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
		a.Close()
		time.Sleep(2 * tellEvery)
	})
}

// Who guesses passwords cannot fill the disk.
func TestAuditLogOfAnAttack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &gate{open: make(chan struct{})}
		close(out.open)
		a := newLog(out, slog.New(slog.DiscardHandler), journal.NamesWhole)
		for range 1000 {
			a.Note(lockevent.Event{Kind: lockevent.LoginFailed, Time: time.Now()})
		}
		time.Sleep(2 * journal.Each)
		a.Close()
		if n := strings.Count(out.text.String(), "\n"); n != journal.Most+1 ||
			!strings.Contains(out.text.String(), `"event":"login-failed","count":990`) {
			t.Errorf("%d lines: %s", n, out.text.String())
		}
	})
}

// What is left of a line that was cut in half does not spoil the next one.
func TestAuditFileAfterATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	f := &logFile{path: path, log: slog.New(slog.DiscardHandler), looked: time.Now()}
	if err := f.openFile(); err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("whole\nha"))
	f.Write([]byte("next\n"))
	f.Write([]byte("last\n"))
	if text, _ := os.ReadFile(path); string(text) != "whole\nha\nnext\nlast\n" {
		t.Errorf("%q", text)
	}
}
