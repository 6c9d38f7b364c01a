package main

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"lockproxy/integration/rig"
)

// haproxyFile spreads clients over the proxies that say they are ready.
const haproxyFile = `global
  nbthread 1
  maxconn 2000
defaults
  mode tcp
  timeout connect 1s
  timeout client 1h
  timeout server 1h
  option redispatch 1
  retries 3
listen chaos
  bind %s
  balance leastconn
  option httpchk GET /readyz
  default-server check inter 200ms fall 1 rise 1
  server a %s port %s
  server b %s port %s
`

// startHaproxy puts one before the two proxies.
func (s *scene) startHaproxy() {
	if _, err := exec.LookPath("haproxy"); err != nil {
		s.Fatalf("haproxy is not installed: `make chaos` installs it")
	}
	s.front = fmt.Sprintf("127.0.0.1:%d", rig.FreePort(s))
	at := []any{s.front}
	for _, p := range s.proxies {
		at = append(at, p.Addr, p.Admin[strings.LastIndex(p.Admin, ":")+1:])
	}
	h := rig.StartProcess(s, "haproxy", "-db", "-f", rig.WriteFile(s, "haproxy.cfg",
		fmt.Sprintf(haproxyFile, at...)))
	rig.Eventually(s, rig.Patience, "haproxy has a proxy that is ready", func() bool {
		if h.Ended() {
			s.Fatalf("haproxy ended: %s", h.Log.Tail())
		}
		c, err := net.DialTimeout("tcp", s.front, time.Second)
		if err != nil {
			return false
		}
		defer c.Close()
		v, err := rig.NewConn(c).Do("PING")
		return err == nil && v.Text == "PONG"
	})
}
