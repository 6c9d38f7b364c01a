//go:build !quick

package pubsub

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockproxy/cluster/discovery"
	"lockproxy/cluster/internal/servers"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// inbox is an Outlet that collects "kind topic: message".
type inbox struct {
	came   chan string
	isFull atomic.Bool
	space  chan struct{}
}

func newInbox() *inbox {
	return &inbox{came: make(chan string, 10_000), space: make(chan struct{})}
}

func (l *inbox) Deliver(topic *Topic, message []byte) bool {
	v, rest, err := resp.Parse(message)
	if err != nil || len(rest) > 0 {
		l.came <- fmt.Sprintf("%q", message)
		return false
	}
	var words []string
	for _, e := range v.Elems {
		words = append(words, string(e.Str))
	}
	l.came <- fmt.Sprintf("%d %s: %s", topic.Kind, topic.Name, strings.Join(words, " "))
	return l.isFull.Load()
}

func (l *inbox) Space() <-chan struct{} { return l.space }

func (l *inbox) expect(t *testing.T, messages ...string) {
	t.Helper()
	for _, want := range messages {
		select {
		case got := <-l.came:
			if got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		case <-time.After(servers.Patience):
			t.Fatalf("nothing came, want %q", want)
		}
	}
}

func (l *inbox) silent(t *testing.T) {
	t.Helper()
	select {
	case got := <-l.came:
		t.Fatalf("got %q", got)
	case <-time.After(50 * time.Millisecond):
	}
}

// join is Join for a test.
func (l *inbox) join(t *testing.T, u *hub, kind Kind, names ...string) []*Topic {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	topics, err := u.Join(ctx, kind, names, l)
	if err != nil {
		t.Fatal(err)
	}
	for i, topic := range topics {
		if topic.Kind != kind || topic.Name != names[i] {
			t.Fatalf("joined %d %q, not %q", topic.Kind, topic.Name, names[i])
		}
	}
	return topics
}

func (u *hub) topicsLeft() int {
	u.Subscriptions.mu.Lock()
	defer u.Subscriptions.mu.Unlock()
	return len(u.Subscriptions.index.all) + len(u.Subscriptions.loose)
}

// Everybody shares one subscription, and each outlet gets each message once. Names are any bytes,
// and a channel, a pattern and a shard channel of one name are three things.
func TestJoin(t *testing.T) {
	s := servers.StartRedis(t)
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(s)})
	a, b := newInbox(), newInbox()
	const name = "n\x00\r\n*"
	first := a.join(t, u, Classic, name, "other")
	a.join(t, u, Classic, name)
	b.join(t, u, Classic, name)
	b.join(t, u, Pattern, name, "n*")
	b.join(t, u, Shard, name)
	member := listenAt(t, u, -1, name)
	if n := s.Must(t, "PUBLISH", name, "1"); n != int64(3) {
		t.Errorf("%v subscriptions", n)
	}
	a.expect(t, "0 "+name+": message "+name+" 1")
	b.expect(t, "0 "+name+": message "+name+" 1")
	patterns := []string{<-b.came, <-b.came}
	slices.Sort(patterns)
	if want := []string{"1 n\x00\r\n*: pmessage n\x00\r\n* " + name + " 1",
		"1 n*: pmessage n* " + name + " 1"}; !slices.Equal(patterns, want) {
		t.Errorf("%q, want %q", patterns, want)
	}
	member.expect(t, "message 1")
	s.Must(t, "SPUBLISH", name, "2")
	b.expect(t, "2 "+name+": smessage "+name+" 2")
	a.silent(t)

	concerned, _ := u.Concerned([]byte(name), false, math.MaxInt)
	if len(concerned) != 3 || concerned[0] != first[0] || u.Topic(Classic, []byte("other")) != first[1] {
		t.Errorf("%d topics are concerned", len(concerned))
	}
	for _, topic := range concerned {
		if topic.CountedAt(s.Addr) != 1 || topic.CountedAt("elsewhere") != 0 {
			t.Errorf("%s: counted at %v", topic.Name, topic.places())
		}
	}
	if u.Home() != s.Addr {
		t.Errorf("home %q", u.Home())
	}

	u.Leave(t.Context(), first, a)
	if n := s.Must(t, "PUBLISH", "other", "3"); n != int64(0) {
		t.Errorf("%v subscriptions to what was left", n)
	}
	s.Must(t, "PUBLISH", name, "4")
	a.expect(t, "0 "+name+": message "+name+" 4") // it had joined twice
	u.Leave(t.Context(), first[:1], a)
	s.Must(t, "PUBLISH", name, "5")
	b.expect(t, "0 "+name+": message "+name+" 4")
	a.silent(t)
	member.cancel()
	for _, kind := range []Kind{Classic, Pattern, Shard} {
		u.Leave(t.Context(), u.Topics(kind), b)
	}
	if n := s.Must(t, "PUBLISH", name, "6"); n != int64(0) || u.topicsLeft() != 0 {
		t.Errorf("%v subscriptions, %d topics are left", n, u.topicsLeft())
	}
}

// Leave returns behind all that was published before, and nothing of the time before Join comes
// behind that.
func TestJoinIsAFence(t *testing.T) {
	s := servers.StartRedis(t)
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(s)})
	a, b := newInbox(), newInbox()
	for i := range 200 {
		kind := Kind(i % 2)
		topics := a.join(t, u, kind, "news")
		for range i % 3 { // the topic stays, or does not
			b.join(t, u, kind, "news")
		}
		s.Must(t, "PUBLISH", "news", i)
		late := newInbox()
		joined := late.join(t, u, kind, "news")
		before := len(late.came)
		u.Leave(t.Context(), joined, late)
		u.Leave(t.Context(), topics, a)
		if len(a.came) != 1 || len(late.came) != before {
			t.Fatalf("round %d: %d messages for who was there, %d for who came later", i, len(a.came),
				len(late.came)-before)
		}
		<-a.came
		for range i % 3 {
			u.Leave(t.Context(), topics, b)
		}
	}
}

// What a node refuses for good, or cannot confirm in time, leaves nothing behind.
func TestJoinFails(t *testing.T) {
	s := servers.StartRedis(t, "--user", "proxy", "on", ">secret", "~*", "+@all", "resetchannels", "&open*")
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(s), User: "proxy", Password: "secret"})
	a := newInbox()
	kept := a.join(t, u, Classic, "open1")
	for _, kind := range []Kind{Classic, Pattern, Shard} {
		_, err := u.Join(t.Context(), kind, []string{"open2", "closed", "open3"}, a)
		var reply SubscribeError
		if !errors.As(err, &reply) || !strings.HasPrefix(string(reply), "NOPERM ") {
			t.Error(err)
		}
	}
	servers.Eventually(t, "only what was joined is left",
		func() bool { return u.topicsLeft() == 1 })
	s.Signal(syscall.SIGSTOP)
	cause := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, cause)
	defer cancel()
	if _, err := u.Join(ctx, Classic, []string{"open1", "open4"}, a); !errors.Is(err, cause) {
		t.Error(err)
	}
	u.Leave(ctx, kept, a)
	s.Signal(syscall.SIGCONT)
	servers.Eventually(t, "nothing is left", func() bool { return u.topicsLeft() == 0 })
	u.Close()
	if _, err := u.Join(t.Context(), Classic, []string{"open5"}, a); err == nil {
		t.Error("joined what is closed")
	}
}

// What patterns cost a node together is bounded, and only those that cost much count. Whoever leaves one
// makes room.
func TestDearPatternsTogether(t *testing.T) {
	s := servers.StartRedis(t)
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(s)})
	a := newInbox()
	dear := func(n int) string { return "*" + strings.Repeat("a", 255) + fmt.Sprint(n) }
	var topics []*Topic
	for n := range mostDear / 256 {
		topics = append(topics, a.join(t, u, Pattern, dear(n))...)
	}
	refused := func(names ...string) {
		t.Helper()
		before := u.topicsLeft()
		if _, err := u.Join(t.Context(), Pattern, names, a); err == nil || u.topicsLeft() != before {
			t.Errorf("joined: %v, %d topics, before %d", err, u.topicsLeft(), before)
		}
	}
	refused(dear(-1))
	refused("x", dear(0), "*"+strings.Repeat("b", CheapPattern+1))
	a.join(t, u, Pattern, dear(1), "*:"+strings.Repeat("job", 99), strings.Repeat("*b", 999))
	a.join(t, u, Classic, dear(-1))
	u.Leave(t.Context(), topics[:1], a)
	refused(dear(-1), dear(-2))
	a.join(t, u, Pattern, dear(-1))
}

// A lost connection is made good in silence.
func TestJoinIsRestored(t *testing.T) {
	s := servers.StartRedis(t)
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(s)})
	a := newInbox()
	topics := a.join(t, u, Classic, "a", "b")
	a.join(t, u, Pattern, "c*")
	a.join(t, u, Shard, "d")
	for i := range 5 {
		s.Must(t, "CLIENT", "KILL", "TYPE", "pubsub")
		servers.Eventually(t, "subscribed again", func() bool {
			return len(s.Must(t, "PUBSUB", "NUMSUB", "a", "b").([]any)) == 4 &&
				s.Must(t, "PUBLISH", "b", "?") == int64(1) &&
				s.Must(t, "PUBLISH", "c", "?") == int64(1) && s.Must(t, "SPUBLISH", "d", "?") == int64(1)
		})
		servers.Eventually(t, "it is known", func() bool {
			return topics[0].CountedAt(s.Addr) == 1 && u.Topic(Shard, []byte("d")).CountedAt("") == 1
		})
		s.Must(t, "PUBLISH", "a", i)
		got := <-a.came
		for strings.HasSuffix(got, "?") {
			got = <-a.came
		}
		if want := fmt.Sprint("0 a: message a ", i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Notifications about keys come from every master, and what is published comes once.
func joinNotificationsOfKeys(t *testing.T, nodes []*servers.Server) {
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(nodes[0])})
	a := newInbox()
	all := a.join(t, u, Pattern, "*")
	event := a.join(t, u, Classic, "__keyevent@0__:set", "plain")
	keyOf := func(s *servers.Server) string { // a key on s
		for i := range slot.Count {
			if u.Topology().Slots[i].Addr == s.Addr {
				return "{" + slot.Tag(i) + "}"
			}
		}
		t.Fatal("no key")
		return ""
	}
	for _, s := range nodes {
		key := keyOf(s)
		s.Must(t, "SET", key, "v")
		got := []string{<-a.came, <-a.came, <-a.came}
		slices.Sort(got)
		want := []string{"0 __keyevent@0__:set: message __keyevent@0__:set " + key,
			"1 *: pmessage * __keyevent@0__:set " + key, "1 *: pmessage * __keyspace@0__:" + key + " set"}
		if !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
		s.Must(t, "PUBLISH", "plain", "1")
		a.expect(t, "0 plain: message plain 1", "1 *: pmessage * plain 1")
		if all[0].CountedAt(s.Addr) != 1 || event[0].CountedAt(s.Addr) != 1 {
			t.Errorf("%s does not count us", s.Addr)
		}
	}
	a.silent(t)

	// A master that is lost is left alone, and joined again when it is back.
	lost := nodes[2]
	if u.Home() == lost.Addr {
		lost = nodes[1]
	}
	lost.Signal(syscall.SIGSTOP)
	topics := a.join(t, u, Pattern, "__*")
	lost.Signal(syscall.SIGCONT)
	key := keyOf(lost)
	servers.Eventually(t, "notifications of a master that is back", func() bool {
		for len(a.came) > 0 {
			if strings.HasPrefix(<-a.came, "1 __*: pmessage __* __keyevent@0__:set") {
				return true
			}
		}
		lost.Client.Do(t.Context(), "SET", key, "v")
		time.Sleep(20 * time.Millisecond)
		return false
	})
	u.Leave(t.Context(), slices.Concat(all, event, topics), a)
	for _, s := range nodes {
		servers.Eventually(t, "unsubscribed",
			func() bool { return s.Must(t, "PUBSUB", "NUMPAT") == int64(0) })
	}
	servers.Eventually(t, "forgotten", func() bool { return u.topicsLeft() == 0 })
}

// A shard channel moves along with its slot, and other channels move when their node goes.
func TestJoinMoves(t *testing.T) {
	nodes := servers.StartCluster(t, 1)
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(nodes[0])})
	a := newInbox()
	a.join(t, u, Shard, "{job}")
	a.join(t, u, Classic, "news")
	n := slot.Of([]byte("{job}"))
	hears := func(what string) {
		t.Helper()
		i, heard := 0, map[string]bool{}
		servers.Eventually(t, "both channels are heard "+what, func() bool {
			for _, s := range nodes {
				s.Client.Do(t.Context(), "SPUBLISH", "{job}", i)
			}
			nodes[i%len(nodes)].Client.Do(t.Context(), "PUBLISH", "news", i)
			for i++; len(a.came) > 0; {
				heard[(<-a.came)[:1]] = true
			}
			return len(heard) == 2
		})
	}
	hears("at first")
	for range 2 {
		from := servers.ByAddr(nodes, u.Topology().Slots[n].Addr)
		to := nodes[slices.IndexFunc(nodes[:3], func(s *servers.Server) bool { return s != from })]
		servers.Cluster(nodes).Migrate(t, n, from.Server, to.Server, 0)
		servers.Eventually(t, "it has moved",
			func() bool { return u.Topology().Slots[n].Addr == to.Addr })
		hears("after the slot moved")
	}
	for _, s := range nodes[3:] {
		servers.Cluster(nodes).Agreed(t)
		servers.Eventually(t, "a replica in sync", func() bool {
			return strings.Contains(s.Client.Info(t.Context(), "replication").Val(), "master_link_status:up")
		})
		s.Must(t, "CLUSTER", "FAILOVER", "TAKEOVER") // others may refuse their votes
		servers.Eventually(t, "it is a master",
			func() bool { return u.Topology().Master(s.Addr) != nil })
		hears("after a fail-over")
	}
}

// A feed waits for an outlet that is full, is not taken for dead meanwhile, and loses nothing.
func TestJoinFull(t *testing.T) {
	s := servers.StartRedis(t)
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(s)})
	a := newInbox()
	a.join(t, u, Classic, "news")
	a.isFull.Store(true)
	s.Must(t, "PUBLISH", "news", 0)
	a.expect(t, "0 news: message news 0")
	for i := range 100 {
		s.Must(t, "PUBLISH", "news", 1+i)
	}
	time.Sleep((feedDead + 2) * feedTick)
	if n := len(a.came); n > 0 {
		t.Errorf("%d messages came to an outlet that is full", n)
	}
	a.isFull.Store(false)
	close(a.space)
	for i := range 100 {
		a.expect(t, fmt.Sprint("0 news: message news ", 1+i))
	}
}

// Many join and leave while connections die: nobody waits for ever, nothing is left over, and who
// has joined hears.
func TestJoinChurn(t *testing.T) {
	s := servers.StartRedis(t)
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(s)})
	var wg sync.WaitGroup
	for w := range 20 {
		wg.Go(func() {
			box := newInbox()
			for i := range 150 {
				within := servers.Patience
				if rand.IntN(4) == 0 {
					within = time.Duration(rand.IntN(2000)) * time.Microsecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), within)
				topics, err := u.Join(ctx, Kind(i%3), []string{fmt.Sprint("c", (w+i)%7), "x",
					fmt.Sprint("__keyspace@", i%3)}, box)
				if err == nil {
					u.Leave(ctx, topics, box)
				} else if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				cancel()
				for len(box.came) > 0 {
					<-box.came
				}
			}
		})
	}
	breakUntil(t, s, &wg, "PUBLISH", "x", "1")
	servers.Eventually(t, "all topics forgotten", func() bool { return u.topicsLeft() == 0 })
	servers.Eventually(t, "nothing subscribed", func() bool {
		return s.Must(t, "PUBSUB", "NUMPAT") == int64(0) &&
			len(s.Must(t, "PUBSUB", "CHANNELS").([]any)) == 0 &&
			len(s.Must(t, "PUBSUB", "SHARDCHANNELS").([]any)) == 0
	})
	for kind := range Shard + 1 {
		if n := len(u.Topics(kind)); n > 0 {
			t.Errorf("%d topics of kind %d are counted", n, kind)
		}
	}
	if topics, _ := u.Concerned([]byte("x"), false, math.MaxInt); len(topics) > 0 {
		t.Errorf("%d topics are concerned", len(topics))
	}
}
