package pipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/scripted"
)

// This file is the nodes of pipe_model_test.go.

const modelBusy = "-BUSY Redis is busy running a script.\r\n"

// Dial implements Control.
func (m *model) Dial(ctx context.Context, addr string, mode cluster.Mode, _ *cluster.Identity) (net.Conn,
	error) {
	m.dials.Add(1)
	n := m.conns.Add(1)
	m.pace()
	rng := rand.New(rand.NewPCG(m.seed, n))
	if !m.well.Load() {
		switch rng.IntN(16) {
		case 0:
			return nil, cluster.NodeError{Addr: addr, Err: errors.New("connection refused")}
		case 1:
			<-ctx.Done()
			return nil, cluster.NodeError{Addr: addr, Err: ctx.Err()}
		case 2:
			return nil, cluster.NodeError{Addr: addr, Err: errors.New(modelBusy[1 : len(modelBusy)-2])}
		case 3:
			if mode.DB != 0 {
				return nil, cluster.NodeError{
					Addr: addr, Err: &cluster.ModeError{Text: "ERR DB index is out of range"},
				}
			}
		case 4:
			time.Sleep(time.Duration(rng.IntN(900)) * time.Millisecond)
		}
	}
	here, there := net.Pipe()
	// ends when here is closed
	go (&modelConn{m: m, rng: rng, nc: there, addr: addr, id: n, proto: mode.Proto}).serve()
	return here, nil
}

// pace lets time pass between connections that are made in one moment, if they are so many that somebody
// makes one after the other without a pause.
func (m *model) pace() {
	const most = 500
	m.mu.Lock()
	if now := time.Now(); now != m.moment {
		m.moment, m.atOnce = now, 0
	}
	m.atOnce++
	n := m.atOnce
	m.mu.Unlock()
	if n > most {
		m.t.Errorf("%d connections in one moment", n)
		time.Sleep(10 * time.Millisecond)
	}
}

// modelConn is a connection as its node sees it.
type modelConn struct {
	m     *model
	rng   *rand.Rand
	nc    net.Conn
	addr  string
	id    uint64
	proto int
	mute  bool
}

var errCut = errors.New("cut")

func (c *modelConn) serve() {
	defer c.nc.Close()
	scripted.Each(narrow{c.nc, 1 << (4 + c.rng.IntN(9))}, func(words []string) bool {
		reply, err := c.answer(words)
		_, failed := io.WriteString(c.nc, reply)
		return failed == nil && err == nil
	}, func() bool {
		if !c.m.well.Load() && !c.mute && chance(c.rng, 300) {
			io.WriteString(c.nc, "-ERR Protocol error\r\n")
			c.mute = true
			return false
		}
		return true
	})
}

// narrow is a connection of which no more than most bytes are read at a time.
type narrow struct {
	net.Conn
	most int
}

func (n narrow) Read(b []byte) (int, error) { return n.Conn.Read(b[:min(n.most, len(b))]) }

// answer returns what is written for one command; errCut ends the connection behind it.
func (c *modelConn) answer(words []string) (string, error) {
	ill := !c.m.well.Load()
	if c.mute {
		return "", nil
	}
	switch words[0] {
	case "CLIENT":
		return fmt.Sprintf(":%d\r\n", c.id), nil
	case "PING":
		if ill && chance(c.rng, 2) {
			return modelBusy, nil
		}
		return cmp.Or(scripted.Prove(words), "+PONG\r\n"), nil
	case "SETUP":
		if ill && chance(c.rng, 20) {
			return "-ERR refused\r\n", nil
		}
		return "+OK\r\n", nil
	case "DO", "EVALSHA":
		if words[0] == "EVALSHA" && words[1] != "abc" { // a question: see redirect.go
			if ill && chance(c.rng, 2) {
				return "-LOADING Redis is loading the dataset in memory\r\n", nil
			}
			return "-NOSCRIPT No matching script.\r\n", nil
		}
	case "ROLE":
		if ill && chance(c.rng, 2) {
			return "*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$9\r\nconnected\r\n:0\r\n", nil
		}
		return "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n", nil
	default:
		return "+OK\r\n", nil
	}
	var id int
	fmt.Sscanf(words[len(words)-1], "id:%d;", &id)
	ran := func() {
		c.m.mu.Lock()
		c.m.ran[id]++
		c.m.mu.Unlock()
	}
	whole := fmt.Sprintf("+id:%d;\r\n", id)
	switch c.rng.IntN(4) {
	case 0:
		text := fmt.Sprintf("id:%d;", id)
		whole = fmt.Sprintf("*2\r\n$%d\r\n%s\r\n:7\r\n", len(text), text)
	case 1:
		text := fmt.Sprintf("id:%d;", id) + strings.Repeat("x", c.rng.IntN(50000))
		whole = fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	if !ill {
		ran()
		return whole, nil
	}
	other := modelAddrs[c.rng.IntN(len(modelAddrs))]
	refusals := []string{
		"-MOVED 7 " + other + "\r\n", "-ASK 7 " + other +
			"\r\n", "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
		"-CLUSTERDOWN The cluster is down\r\n", "-LOADING Redis is loading the dataset in memory\r\n",
		"-READONLY You can't write against a read only replica.\r\n",
		"-NOSCRIPT No matching script.\r\n", "-MOVED 7 " + other +
			"\r\n", "-MASTERDOWN Link with MASTER is down\r\n",
		fmt.Sprintf("-BUSY id:%d; Redis is busy running a script.\r\n", id),
	}
	if n := c.rng.IntN(60); n < len(refusals) {
		return refusals[n], nil
	} else if n == 59 {
		return "", errCut // before it has run
	}
	ran()
	push := ""
	if c.proto == 3 && chance(c.rng, 4) {
		push = ">2\r\n+invalidate\r\n$3\r\nabc\r\n"
	}
	switch c.rng.IntN(60) {
	case 0:
		return "", errCut
	case 1:
		return whole[:c.rng.IntN(len(whole))], errCut
	case 2:
		c.mute = true
		return "", nil
	case 3:
		c.mute = true
		return whole[:c.rng.IntN(len(whole))], nil
	case 4:
		return "hello\r\n", nil
	case 5:
		return whole + "hello\r\n", nil
	case 6:
		return whole, errCut
	case 7, 8:
		time.Sleep(time.Duration(c.rng.IntN(5000)) * time.Millisecond)
	case 9, 10, 11, 12:
		time.Sleep(time.Duration(c.rng.IntN(300)) * time.Millisecond)
	case 13:
		cut := c.rng.IntN(len(whole))
		io.WriteString(c.nc, whole[:cut])
		time.Sleep(time.Duration(c.rng.IntN(1000)) * time.Millisecond)
		return whole[cut:], nil
	}
	return push + whole, nil
}

// shuffle makes another topology.
func (m *model) shuffle(rng *rand.Rand, masters ...string) {
	m.mu.Lock()
	version := uint64(1)
	if m.topology != nil {
		version = m.topology.Version + 1
	}
	t := &cluster.Topology{Version: version, Kind: cluster.Cluster}
	for _, addr := range masters {
		t.Masters = append(t.Masters, &cluster.Node{Addr: addr, Master: true})
	}
	if len(masters) > 0 {
		for i := range t.Slots {
			if len(masters) == 1 || i%1000 != 0 || !chance(rng, 8) {
				t.Slots[i] = t.Masters[i*len(masters)/len(t.Slots)]
			}
		}
		if len(masters) < len(modelAddrs) {
			r := &cluster.Node{Addr: "r:1", Follows: masters[0]}
			t.Replicas = []*cluster.Node{r}
			if chance(rng, 2) {
				t.Readers = map[*cluster.Node][]*cluster.Node{t.Masters[0]: {r}}
			}
		}
	}
	m.topology = t
	m.mu.Unlock()
}
