package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/rig"
)

const (
	masters     = 3
	tagsOfShard = 8 // as many slots are in use at each
)

// scene is where one fault happens: a cluster, two proxies before it, and clients of both ways.
type scene struct {
	*rig.OwnLife
	options
	fault   *fault
	random  *rand.Rand
	cluster *rig.Cluster
	proxies []*rig.Proxy
	args    []string // of a proxy
	front   string   // haproxy, where there is one
	load    *load

	shard           int         // the one that the fault strikes
	spot            string      // the workers that it strikes, by their spot; "": all
	master, replica *rig.Server // of the shard, when it begins

	struck   time.Duration // when the fault began
	over     time.Duration // when it was over; 0: not told
	promoted atomic.Int64  // when another node became master, as a time of the load; 0: none did
	notes    []string      // what else was seen
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

// begin has clients begin, whose keys have that name. The masters that the fault does not strike are asked
// straight, too.
func (s *scene) begin(name string) {
	tags := s.tagsByShard()
	s.shard = s.random.IntN(masters)
	s.master = s.cluster.MasterOf(s, tags[s.shard][0])
	s.replica = s.replicaOf(s.master)
	switch {
	case s.fault.all:
	case s.fault.proxies:
		s.spot = "proxy 0"
	default:
		s.spot = fmt.Sprint("shard ", s.shard)
	}
	s.load = &load{plan: s.plan, name: name, tags: tags, probed: make([]string, masters), struck: s.shard,
		ways: s.ways()}
	for shard, of := range tags {
		if !s.fault.all && (shard != s.shard || s.fault.proxies) {
			s.load.probed[shard] = s.cluster.MasterOf(s, of[0]).Addr
		}
	}
	s.load.begin()
	if !s.fault.all {
		s.watch()
	}
}

func (s *scene) startCluster() {
	args := append([]string{"--cluster-node-timeout", fmt.Sprint(s.nodeTimeout.Milliseconds()),
		"--appendonly", "yes", "--appendfsync", "always", "--enable-protected-configs", "yes",
		"--repl-backlog-size", "64mb", "--protected-mode", "no",
		"--cluster-require-full-coverage", "no"}, s.fault.args...)
	each := s.fault.each
	if each == nil {
		each = func(i int) []string {
			return []string{"--bind-source-addr", source(i), "--cluster-announce-ip", "127.0.0.1"}
		}
	}
	if s.fault.links {
		s.cluster = rig.StartLinkedCluster(s, masters, 1, args...)
	} else {
		s.cluster = rig.StartClusterWith(s, masters, 1, each, args...)
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
		own := []string{"--listen", fmt.Sprint("127.0.0.1:", rig.FreePort(s)), "--admin",
			fmt.Sprint("127.0.0.1:", rig.FreePort(s))}
		s.proxies = append(s.proxies, rig.StartBinary(s, s.binary(s), append(own, s.args...)...))
	}
}

// tagsByShard finds hash tags whose slots are at the three masters.
func (s *scene) tagsByShard() [][]string {
	tags, known := make([][]string, masters), map[int]bool{}
	few := func(of []string) bool { return len(of) < tagsOfShard }
	for i := 0; slices.ContainsFunc(tags, few); i++ {
		tag := fmt.Sprint("t", i)
		slot := s.cluster.SlotOf(s, tag)
		shard := (masters*(slot+1) - 1) / rig.Slots
		if !known[slot] && few(tags[shard]) {
			known[slot] = true
			tags[shard] = append(tags[shard], tag)
		}
	}
	return tags
}

// ways are the two ways to the cluster: plain clients of the proxies, and go-redis with its defaults straight
// at the cluster, or, where proxies are struck, as a client of theirs.
func (s *scene) ways() []way {
	addr := func(i int) string {
		if s.front != "" {
			return s.front
		}
		return s.proxies[i%len(s.proxies)].Addr
	}
	spot := func(_, shard int) string { return fmt.Sprint("shard ", shard) }
	name, beside := "go-redis", spot
	connect := func() redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(s.args[1], ",")})
	}
	if s.fault.proxies {
		spot = func(i, _ int) string { return fmt.Sprint("proxy ", i%len(s.proxies)) }
		name, beside = "go-redis, through lockproxy", func(int, int) string { return "proxy 0" }
		connect = func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: addr(0)}) }
	}
	var turn atomic.Int64
	plainly := func(i int) door { return &plain{addr: addr(i), again: s.fault.again} }
	shared := library{connect()}
	return []way{
		{"lockproxy", plainly, func() door { return plainly(int(turn.Add(1))) }, spot},
		{name, func(int) door { return shared }, func() door { return library{connect()} }, beside},
	}
}

// hit says whether the fault strikes what a worker depends on.
func (s *scene) hit(k *worker) bool { return s.spot == "" || k.spot == s.spot }

// note adds a line to what was seen.
func (s *scene) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

func (s *scene) replicaOf(master *rig.Server) *rig.Server {
	all := s.cluster.ReplicasOf(s, master)
	if len(all) == 0 {
		s.Fatalf("%s has no replica", master.Addr)
	}
	return all[0]
}

// watch looks every few ms whether the replica has become master, until the clients end.
func (s *scene) watch() {
	d := &plain{addr: s.replica.Addr}
	s.load.tasks.Go(func() {
		defer d.close()
		s.load.paced(4*time.Millisecond, func(int) {
			v, err := d.run([]string{"ROLE"})
			if err == nil && len(v.Elems) > 0 && v.Elems[0].Text == "master" {
				s.promoted.CompareAndSwap(0, int64(s.load.now()))
			}
		})
	})
}

// promotion waits until the replica is master.
func (s *scene) promotion() {
	rig.Eventually(s, 4*s.nodeTimeout+rig.Patience, "a replica takes over",
		func() bool { return s.promoted.Load() != 0 })
}

// mark is what recovery counts from: the promotion, or the end of the fault if there was none.
func (s *scene) mark() time.Duration {
	return cmp.Or(time.Duration(s.promoted.Load()), s.over, s.struck)
}

// bystanders is how long clients of others may take to go on, at most.
const bystanders = 12 * time.Second

// settle waits until clients go on, for as long as options say.
func (s *scene) settle() {
	mark, begun := s.mark(), time.Now()
	for w := range s.load.ways {
		limit := s.patience
		if w > 0 {
			limit = min(limit, bystanders)
		}
		for time.Since(begun) < limit && !s.load.heard(w, mark, s.hit) {
			time.Sleep(20 * time.Millisecond)
		}
	}
	time.Sleep(s.calm / 2)
}

// masterAt is the live node that serves a hash tag, once no other one believes that it does, too.
func (s *scene) masterAt(tag string) (addr string) {
	rig.Eventually(s, rig.Patience, "one node alone serves {"+tag+"}", func() bool {
		serve := 0
		for _, n := range s.cluster.Nodes {
			if n.Ended() {
				continue
			}
			if _, err := rig.Ask(n.Addr, "EXISTS", "{"+tag+"}"); err == nil {
				addr = n.Addr
				serve++
			}
		}
		return serve == 1
	})
	return addr
}

// judge compares what the clients of a way were told with what is there now.
func (s *scene) judge(ops []op) verdict {
	reads, there := map[string][][]string{}, state{} // the reads by tag
	for _, o := range ops {
		if _, ok := there[o.key]; ok {
			continue
		}
		there[o.key] = nil
		read := []string{"LRANGE", o.key, "0", "-1"}
		if o.verb == vSet || o.verb == vIncr || o.verb == vGet {
			read = []string{"GET", o.key}
		}
		tag := o.key[1:strings.Index(o.key, "}")]
		reads[tag] = append(reads[tag], read)
	}
	for tag, all := range reads {
		c, err := rig.Dial(s.masterAt(tag))
		if err == nil {
			defer c.Close()
			err = pipeline(c, all, func(i int, v rig.Reply) {
				switch key := all[i][1]; {
				case v.IsError():
					s.Fatalf("what is there of %s cannot be read: %s", key, v.Text)
				case v.Null:
				case all[i][0] == "GET":
					there[key] = []string{v.Text}
				default:
					there[key] = v.Strings()
				}
			})
		}
		if err != nil {
			s.Fatalf("what is there cannot be read: %v", err)
		}
	}
	return judge(ops, there, s.fault.lossy)
}
