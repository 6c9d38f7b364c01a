package main

import (
	"net"
	"testing"
	"time"
)

// A server that hangs for a moment makes late whatever is due meanwhile, also what can only be sent later: a
// load that waits for each reply would see one late request.
func TestPacedCountsFromWhenItWasDue(t *testing.T) {
	const hang, each, n = 300 * time.Millisecond, 5 * time.Millisecond, 100
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buf := make([]byte, 4)
		for i := 0; ; i++ {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			if i == 10 {
				time.Sleep(hang)
			}
			conn.Write([]byte("+\r\n"))
		}
	}()
	var l load
	defer l.close()
	ping := func(dst []byte) []byte { return append(dst, "PING"...) }
	if err := l.dial(ln.Addr().String(), ping, nil); err != nil {
		t.Fatal(err)
	}
	table := timetable{begun: time.Now(), each: each}
	sent := make(chan error, 1)
	go func() { sent <- table.send(t.Context(), l.conns, n) }()
	took, err := table.receive(t.Context(), l.conns, n)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	late := 0
	for _, d := range took {
		if d > hang/3 {
			late++
		}
	}
	if due := int(hang * 2 / 3 / each); late < due {
		t.Errorf("%d of %d were late, want %d at least: those due while the server hung", late, n, due)
	}
}

// Each connection of an even load sends as many batches as every other one, however slow it is.
func TestEvenLoad(t *testing.T) {
	quick, asked := answering(t, "PING", "+PONG\r\n")
	l := load{pipeline: 1, even: true}
	defer l.close()
	for i := range 3 {
		if err := l.dial(quick, func(dst []byte) []byte {
			if i == 0 {
				time.Sleep(20 * time.Millisecond) // the others have answers meanwhile
			}
			return append(dst, "PING"...)
		}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // a second run counts anew
		if _, err := l.run(t.Context(), 12); err != nil {
			t.Fatal(err)
		}
	}
	l.close()
	l.conns = nil
	for range 3 {
		if n := <-asked; n != 8 {
			t.Errorf("a connection sent %d batches, want 8", n)
		}
	}
}

// What scripts took is shared out among them, and so is what the commands inside them took, no others.
func TestPerScript(t *testing.T) {
	each, inside := perScript(map[string]spending{"evalsha": {10, 500}, "get": {20, 50}, "info": {1, 900}},
		map[string]bool{"get": true})
	if each != 50*time.Microsecond || inside != 5*time.Microsecond {
		t.Errorf("%v, inside %v", each, inside)
	}
	if each, inside = perScript(nil, nil); each != 0 || inside != 0 {
		t.Errorf("of nothing: %v, %v", each, inside)
	}
}
