package integration

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// A cluster bus listens 10000 above the port; below this one it stays out of
// the range that systems hand out for outgoing connections.
const highestPort = 22700

var ports struct {
	sync.Mutex
	given map[int]bool
}

// freePort is a port of 127.0.0.1 that nobody listens on, nor on its bus port.
func freePort(l life) int {
	l.Helper()
	ports.Lock()
	defer ports.Unlock()
	if ports.given == nil {
		ports.given = map[int]bool{}
	}
	for range 1000 {
		port := 10240 + rand.IntN(highestPort-10240)
		if !ports.given[port] && free(port) && free(port+10000) {
			ports.given[port] = true
			return port
		}
	}
	l.Fatalf("no free port below %d on 127.0.0.1", highestPort)
	return 0
}

func free(port int) bool {
	n, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	n.Close()
	return true
}
