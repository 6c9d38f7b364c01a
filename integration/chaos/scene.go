package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/rig"
)

const (
	masters     = 3
	tagsOfShard = 8 // as many slots are in use at each
)

// scene is where one fault happens: a cluster of three masters with a replica each, two proxies before it,
// and clients of both ways.
//
//	plain clients ---> (haproxy) ---> two lockproxies ---> 3 masters + 3 replicas
//	go-redis, ClusterClient --------------------------------^
type scene struct {
	*life
	options
	fault   *fault
	random  *rand.Rand
	cluster *rig.Cluster
	proxies []*rig.Proxy
	args    []string // of a proxy
	front   string   // haproxy, where there is one
	load    *load

	shard  int         // the one that the fault strikes
	master *rig.Server // its master, when it begins
	spot   string      // the workers that it strikes, by their spot; "": all

	struck   time.Duration // when the fault began
	over     time.Duration // when it was over; 0: not told
	promoted atomic.Int64  // when another node became master, as a time of the load; 0: none did
	notes    []string      // what else was seen
	watched  sync.WaitGroup
	unwatch  chan struct{}
}

// open starts servers and clients, and has the clients begin.
func (s *scene) open() {
	s.startCluster()
	s.startProxies()
	if s.fault.behind {
		s.startHaproxy()
	}
	s.begin(s.fault.name)
}

// begin has clients begin, whose keys have that name.
func (s *scene) begin(name string) {
	tags := s.tagsByShard()
	s.shard = s.random.IntN(masters)
	s.master = s.cluster.MasterOf(s, tags[s.shard][0])
	var nodes []string
	for _, of := range tags {
		nodes = append(nodes, s.cluster.MasterOf(s, of[0]).Addr)
	}
	s.spot, s.unwatch = fmt.Sprint("shard ", s.shard), make(chan struct{})
	s.load = &load{plan: s.plan, name: name, tags: tags, nodes: nodes, struck: s.shard, ways: s.ways()}
	s.load.begin()
}

// end stops the clients, if there are any, and waits for them.
func (s *scene) end() {
	if s.load != nil {
		close(s.unwatch)
		s.watched.Wait()
		s.load.end()
	}
}

// source is the address from which node i connects to others: so what it sends can be told from what the
// others do.
func source(i int) string { return fmt.Sprintf("127.0.1.%d", 10+i) }

func (s *scene) startCluster() {
	args := append([]string{"--cluster-node-timeout", strconv.Itoa(int(s.nodeTimeout.Milliseconds())),
		"--appendonly", "yes", "--appendfsync", "always", "--enable-protected-configs", "yes",
		"--repl-backlog-size", "64mb", "--protected-mode", "no",
		"--cluster-require-full-coverage", "no"}, s.fault.args...)
	switch {
	case s.fault.links:
		s.cluster = rig.StartLinkedCluster(s, masters, 1, args...)
	case s.fault.each != nil:
		s.cluster = rig.StartClusterWith(s, masters, 1, s.fault.each, args...)
	default:
		s.cluster = rig.StartClusterWith(s, masters, 1, func(i int) []string {
			return []string{"--bind-source-addr", source(i), "--cluster-announce-ip", "127.0.0.1"}
		}, args...)
	}
}

// startProxies starts two of them at ports that they can have again.
func (s *scene) startProxies() {
	upstream := s.cluster.Addrs()
	if s.fault.upstream != nil {
		upstream = s.fault.upstream(s)
	}
	s.args = append([]string{"--upstream", upstream}, s.lockproxyArgs...)
	for range 2 {
		s.proxies = append(s.proxies, s.startProxy(rig.FreePort(s), rig.FreePort(s)))
	}
}

func (s *scene) startProxy(port, admin int) *rig.Proxy {
	return rig.StartBinary(s, s.binary(s), append(slices.Clone(s.args), "--listen",
		fmt.Sprint("127.0.0.1:", port), "--admin", fmt.Sprint("127.0.0.1:", admin))...)
}

// restartProxy starts one at the addresses of another one, which has ended.
func (s *scene) restartProxy(i int) {
	s.proxies[i] = rig.StartBinary(s, s.binary(s), append(slices.Clone(s.args), "--listen",
		s.proxies[i].Addr, "--admin", strings.TrimPrefix(s.proxies[i].Admin, "http://"))...)
}

// tagsByShard finds hash tags whose slots are at the three masters.
func (s *scene) tagsByShard() [][]string {
	tags, known := make([][]string, masters), map[int]bool{}
	c := rig.Connect(s, s.cluster.Nodes[0].Addr)
	for i, full := 0, 0; full < masters; i++ {
		tag := fmt.Sprint("t", i)
		slot := int(c.Must(s, "CLUSTER", "KEYSLOT", tag).Int())
		shard := 0
		for slot >= rig.Slots*(shard+1)/masters {
			shard++
		}
		if known[slot] || len(tags[shard]) == tagsOfShard {
			continue
		}
		known[slot] = true
		if tags[shard] = append(tags[shard], tag); len(tags[shard]) == tagsOfShard {
			full++
		}
	}
	return tags
}

// ways are the two ways to the cluster.
func (s *scene) ways() []way {
	var turn atomic.Int64
	addr := func(i int) string {
		if s.front != "" {
			return s.front
		}
		return s.proxies[i%len(s.proxies)].Addr
	}
	through := way{name: "lockproxy", close: func() {},
		door: func(i int) door { return &plain{addr: addr(i), again: s.fault.again} },
		fresh: func() (door, func()) {
			p := &plain{addr: addr(int(turn.Add(1))), again: s.fault.again}
			return p, p.close
		},
		spot: func(i, shard int) string {
			if s.fault.proxies {
				return fmt.Sprint("proxy ", i%len(s.proxies))
			}
			return fmt.Sprint("shard ", shard)
		}}
	if s.fault.proxies {
		return []way{through, s.libraryThrough(addr)}
	}
	return []way{through, s.libraryBeside()}
}

// libraryBeside is go-redis with its defaults, straight at the cluster.
func (s *scene) libraryBeside() way {
	connect := func() *redis.ClusterClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(s.args[1], ",")})
	}
	shared := connect()
	return way{name: "go-redis", close: func() { shared.Close() },
		door: func(int) door { return library{shared} },
		fresh: func() (door, func()) {
			c := connect()
			return library{c}, func() { c.Close() }
		},
		spot: func(_, shard int) string { return fmt.Sprint("shard ", shard) }}
}

// libraryThrough is go-redis with its defaults, as a client of the proxies.
func (s *scene) libraryThrough(addr func(int) string) way {
	shared := redis.NewClient(&redis.Options{Addr: addr(0)})
	return way{name: "go-redis, through lockproxy", close: func() { shared.Close() },
		door: func(int) door { return library{shared} },
		fresh: func() (door, func()) {
			c := redis.NewClient(&redis.Options{Addr: addr(0)})
			return library{c}, func() { c.Close() }
		},
		spot: func(int, int) string { return "proxy 0" }}
}

// hit says whether the fault strikes what a worker depends on.
func (s *scene) hit(k *worker) bool { return s.spot == "" || k.spot == s.spot }

// strike notes that the fault begins now.
func (s *scene) strike() { s.struck = s.load.now() }

// ended notes that the fault is over.
func (s *scene) ended() { s.over = s.load.now() }

// note adds a line to what was seen.
func (s *scene) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// replica is the replica of the shard that is struck.
func (s *scene) replica() *rig.Server {
	all := s.cluster.ReplicasOf(s, s.master)
	if len(all) == 0 {
		s.Fatalf("%s has no replica", s.master.Addr)
	}
	return all[0]
}

// watch looks every few ms whether a node has become master.
func (s *scene) watch(node *rig.Server) {
	s.watched.Go(func() {
		var c *rig.Conn
		for ; ; time.Sleep(4 * time.Millisecond) {
			select {
			case <-s.unwatch:
				return
			default:
			}
			if c == nil {
				var err error
				if c, err = rig.Dial(node.Addr); err != nil {
					c = nil
					continue
				}
				defer c.Close()
			}
			c.Send("ROLE")
			v, err := c.Receive(time.Second)
			if err != nil {
				c = nil
				continue
			}
			if len(v.Elems) > 0 && v.Elems[0].Text == "master" {
				s.promoted.Store(int64(s.load.now()))
				return
			}
		}
	})
}

// promotion waits until the node that is watched is master.
func (s *scene) promotion() {
	rig.Eventually(s, 4*s.nodeTimeout+10*time.Second, "a replica takes over",
		func() bool { return s.promoted.Load() != 0 })
}

// stop stops a process for d, as a fault.
func (s *scene) stop(p *rig.Process, d time.Duration) {
	s.strike()
	p.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	p.Signal(syscall.SIGCONT)
	s.ended()
}

// mark is what recovery counts from: the promotion, or the end of the fault if there was none.
func (s *scene) mark() time.Duration {
	switch promoted := time.Duration(s.promoted.Load()); {
	case promoted != 0:
		return promoted
	case s.over != 0:
		return s.over
	}
	return s.struck
}

// settle waits until clients go on: those of lockproxy, and, for as long as options say, the others.
func (s *scene) settle() {
	mark, end := s.mark(), time.Now()
	for w := range s.load.ways {
		for limit := end.Add(s.patience); time.Now().Before(limit) && !s.load.heard(w, mark, s.hit); {
			time.Sleep(20 * time.Millisecond)
		}
	}
	time.Sleep(s.calm / 2)
}

// masterAt is the live node that serves a hash tag, as most of the nodes say.
func (s *scene) masterAt(tag string) (addr string, err error) {
	for end := time.Now().Add(rig.Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		votes, live := map[string]int{}, 0
		for _, n := range s.cluster.Nodes {
			if n.Ended() {
				continue
			}
			live++
			c, dialled := rig.Dial(n.Addr)
			if err = dialled; err != nil {
				continue
			}
			var v rig.Reply
			if v, err = c.Do("EXISTS", "{"+tag+"}"); err == nil {
				port := strconv.Itoa(n.Port)
				if n.Link != nil {
					_, port, _ = strings.Cut(n.Link.Addr(), ":")
				}
				if _, at, moved := strings.Cut(v.Text, "MOVED "); moved {
					port = at[strings.LastIndex(at, ":")+1:]
				} else if v.IsError() {
					port = ""
				}
				if port != "" {
					votes[port]++
				}
			}
			c.Close()
		}
		for port, n := range votes {
			if n > live/2 {
				return s.nodeAt(port)
			}
		}
	}
	return "", fmt.Errorf("the nodes do not agree who serves {%s}: %w", tag, err)
}

// nodeAt is where a node is reached straight that others reach at a port.
func (s *scene) nodeAt(port string) (string, error) {
	for _, n := range s.cluster.Nodes {
		if n.Link != nil && strings.HasSuffix(n.Link.Addr(), ":"+port) || strconv.Itoa(n.Port) == port {
			return n.Addr, nil
		}
	}
	return "", fmt.Errorf("no node has port %s", port)
}

// read is what is there now of all keys that ops are about.
func (s *scene) read(ops []op) state {
	byTag := map[string]map[string]bool{}
	for _, o := range ops {
		tag := o.key[1:strings.Index(o.key, "}")]
		if byTag[tag] == nil {
			byTag[tag] = map[string]bool{}
		}
		byTag[tag][o.key] = listKey(o)
	}
	all := state{}
	for tag, keys := range byTag {
		addr, err := s.masterAt(tag)
		if err == nil {
			err = readKeys(addr, keys, all)
		}
		if err != nil {
			s.Fatalf("what is there cannot be read: %v", err)
		}
	}
	return all
}

func listKey(o op) bool { return o.verb != vSet && o.verb != vIncr && o.verb != vGet }

// readKeys reads keys, which are strings or lists, from a master.
func readKeys(addr string, keys map[string]bool, into state) error {
	c, err := rig.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	var names []string
	for key := range keys {
		names = append(names, key)
	}
	for part := range slices.Chunk(names, 500) {
		var out []byte
		for _, key := range part {
			if keys[key] {
				out = append(out, rig.Encode("LRANGE", key, "0", "-1")...)
			} else {
				out = append(out, rig.Encode("GET", key)...)
			}
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
		for _, key := range part {
			v, err := c.Receive(rig.Patience)
			switch {
			case err != nil:
				return err
			case v.IsError():
				return fmt.Errorf("%s at %s: %s", key, addr, v.Text)
			case v.Null:
			case keys[key]:
				into[key] = v.Strings()
			default:
				into[key] = []string{v.Text}
			}
		}
	}
	return nil
}
