package rig

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are from lowestPort to below highestPort. A cluster bus listens 10000 above its port, which is no
// port of another server then, nor one of those that systems hand out for outgoing connections. Redis's own
// suite listens above the last.
const lowestPort, highestPort = 10240, 16240

// claims keeps others from the ports that this process has given away: each is taken with UDP, which no
// server of a test uses, until the process ends. So packages of tests that run side by side share no port.
var claims struct {
	sync.Mutex
	held []net.PacketConn
}

// FreePort is a port of 127.0.0.1 that nobody listens on, nor on its bus port. It is given away once.
func FreePort(l Life) int {
	l.Helper()
	claims.Lock()
	defer claims.Unlock()
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		claim, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if free(port) && free(port+10000) {
			claims.held = append(claims.held, claim)
			return port
		}
		claim.Close()
	}
	l.Fatalf("no free port below %d on 127.0.0.1", highestPort)
	return 0
}

// Listens says whether somebody takes connections at an address.
func Listens(addr string) bool {
	c, err := Dial(addr)
	if err == nil {
		c.Close()
	}
	return err == nil
}

func free(port int) bool {
	n, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	n.Close()
	return true
}
