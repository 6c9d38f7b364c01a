package hostile

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/discovery"
	"lockproxy/cluster/master"
	"lockproxy/cmd/lockproxy/checkup"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/internal/loop"
)

// monsters are replies that nobody has room for.
var monsters = []string{
	"$9223372036854775807\r\n", "$1125899906842624\r\n", "$2147483647\r\n", "*9223372036854775807\r\n",
	"*2147483647\r\n", "%2147483647\r\n", "*1\r\n" + endless + "*1\r\n", "+" + endless + "x",
	"$16000000\r\n" + endless + "x", "*999999999\r\n" + endless + ":1\r\n",
}

// lone is a Redis that knows of no other.
func lone(number int, words []string) string {
	switch line := strings.ToUpper(strings.Join(words, " ")); {
	case strings.HasPrefix(line, "INFO"):
		return bulk(fmt.Sprintf("redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\n"+
			"run_id:%d\r\nuptime_in_seconds:1000000\r\nmaxmemory:0\r\n", number))
	case line == "TIME":
		now := time.Now()
		return "*2\r\n" + bulk(fmt.Sprint(now.Unix())) + bulk(fmt.Sprint(now.Nanosecond()/1000))
	case strings.HasPrefix(line, "CONFIG"):
		return "*0\r\n"
	case strings.HasPrefix(line, "CLIENT ID"):
		return ":7\r\n"
	case strings.HasPrefix(line, "HELLO"):
		return "%0\r\n"
	case line == "PING":
		return "+PONG\r\n"
	}
	return "+OK\r\n"
}

// alone runs test in fake time, while a node lies in all that it says.
func alone(t *testing.T, reply string, nodes []string, honest func(int, []string) string, most int,
	test func(t *testing.T, l *liar)) {
	synctest.Test(t, func(t *testing.T) {
		l := &liar{nodes: nodes, honest: honest, dialled: make(map[string]bool)}
		l.tell(func([]string) string { return reply }, nil)
		test(t, l)
		l.tell(nil, nil)
		time.Sleep(time.Minute)
		if l.taken > most+512<<10 {
			t.Errorf("%.20q: %d bytes were read", reply, l.taken)
		}
	})
}

// A master of RedLock that says what nobody has room for has no vote, and no more.
func TestMonstersOfAMaster(t *testing.T) {
	for _, reply := range monsters {
		alone(t, reply, addresses, lone, 16<<20, func(t *testing.T, l *liar) {
			on := loop.NewPortable()
			go on.Run()
			defer on.Close()
			all, err := master.Connect(t.Context(), on, addresses, master.Options{Dial: l.dial})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			for i, m := range all {
				if h := m.Health(); h.Votes != (i != liarsNumber) {
					t.Errorf("%.20q: master %d: %+v", reply, i, h)
				}
				m.Close()
			}
		})
	}
}

// lockproxy check tells what is wrong with such a node, and of the others what there is to tell.
func TestMonstersInACheck(t *testing.T) {
	for _, reply := range monsters {
		alone(t, reply, addresses, honest, 16<<20, func(t *testing.T, l *liar) {
			var facts []string
			checkup.Run(t.Context(), &settings.Values{
				Upstream: discovery.Options{Addrs: addresses, Dial: l.dial, ConnectTimeout: time.Second,
					KeepAlive: time.Second, Logins: cluster.NewLogins(cluster.Login{}),
					Log: slog.New(slog.DiscardHandler)},
			}, func(f checkup.Fact) {
				if f.Level == checkup.Fail {
					facts = append(facts, f.Node)
				}
			})
			if !slices.Contains(facts, addresses[liarsNumber]) {
				t.Errorf("%.20q: %q", reply, facts)
			}
		})
	}
}

// The group has three Sentinels, of which the second lies, a master and a replica.
var group = []string{"10.0.1.1:26379", "10.0.1.2:26379", "10.0.1.3:26379", "10.0.0.1:6379", "10.0.0.2:6379"}

// reports is what a Sentinel of the group says.
func reports(host string, epoch uint64) func(words []string) string {
	pairs := func(words ...string) string {
		all := fmt.Sprintf("*%d\r\n", len(words))
		for _, w := range words {
			all += bulk(w)
		}
		return all
	}
	return func(words []string) string {
		if strings.ToUpper(words[0]) != "SENTINEL" {
			return ""
		}
		switch strings.ToUpper(words[1]) {
		case "MASTERS":
			return "*1\r\n" + pairs("name", "mine")
		case "GET-MASTER-ADDR-BY-NAME":
			return pairs(host, "6379")
		case "MASTER":
			return pairs("name", "mine", "config-epoch", fmt.Sprint(epoch))
		case "REPLICAS":
			return "*1\r\n" + pairs("ip", "10.0.0.2", "port", "6379", "flags", "slave")
		}
		return "*0\r\n"
	}
}

func inGroup(number int, words []string) string {
	is := "redis_mode:sentinel\r\n"
	switch {
	case number == 3:
		is = "redis_mode:standalone\r\nrole:master\r\n"
	case number == 4:
		is = "redis_mode:standalone\r\nrole:slave\r\n"
	default:
		if said := reports("10.0.0.1", 5)(words); said != "" {
			return said
		}
	}
	if strings.ToUpper(words[0]) == "INFO" {
		return bulk("redis_version:7.0.15\r\n" + is)
	}
	return lone(number, words)
}

// Whatever one Sentinel of three says, the master stays, and nobody else is dialled.
func TestLiesOfASentinel(t *testing.T) {
	const huge = 1e18
	lies := map[string]func(words []string) string{
		"a stranger":   reports("10.9.9.9", huge),
		"the replica":  reports("10.0.0.2", huge),
		"a path":       reports("/tmp/socket", huge),
		"a long name":  reports(strings.Repeat("x", 10<<20), huge),
		"an old epoch": reports("10.9.9.9", 0),
	}
	for _, reply := range slices.Concat(monsters, shapes) {
		lies[reply] = func([]string) string { return strings.ReplaceAll(reply, "KEY", "x") }
	}
	for name, lie := range lies {
		synctest.Test(t, func(t *testing.T) {
			l := &liar{nodes: group, honest: inGroup, dialled: make(map[string]bool)}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			u, err := discovery.Find(ctx, discovery.Options{Addrs: group[:3], Dial: l.dial})
			if err != nil {
				t.Fatal(err)
			}
			running, stop := context.WithCancel(context.Background())
			over := make(chan struct{})
			go func() { u.Run(running); close(over) }() // ends with stop
			l.tell(lie, nil)
			for range 10 {
				time.Sleep(time.Second)
				if m := u.Topology().Masters; len(m) != 1 || m[0].Addr != group[3] {
					t.Errorf("%.40q: the master is %+v", name, m)
				}
			}
			if l.taken > 17<<20 {
				t.Errorf("%.40q: %d bytes were read", name, l.taken)
			}
			stop()
			<-over
			l.tell(nil, nil)
			time.Sleep(time.Minute)
			for addr := range l.dialled {
				if !slices.Contains(group, addr) {
					t.Errorf("%.40q: %.40s was dialled", name, addr)
				}
			}
		})
	}
}
