package compare

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// TestOwnMessagesInOrder: what a connection publishes and counts, between subscriptions that it begins and
// ends, all in one pipeline and in random orders, has the replies and the messages that Redis gives. Only
// where a message comes among the replies differs, as it does between versions of Redis; but it comes while
// its subscription stands.
func TestOwnMessagesInOrder(t *testing.T) {
	bare := rig.StartRedis(t, quietRedis...).Addr
	for name, through := range map[string]string{
		"single":  rig.SharedOverRedis().Addr,
		"cluster": rig.SharedOverCluster().Addr,
	} {
		for _, proto := range []string{"2", "3"} {
			t.Run(name+" RESP"+proto, func(t *testing.T) {
				for seed := range uint64(200) {
					prefix := fmt.Sprintf("{own:%s:%s:%d}", through, proto, seed)
					pipeline := ownMessages(rand.New(rand.NewPCG(seed, 0)), prefix, name == "single")
					want := playOwn(t, bare, proto, pipeline)
					if got := playOwn(t, through, proto, pipeline); got != want {
						t.Errorf("seed %d: %q\n%s\nRedis:\n%s", seed, pipeline, got, want)
					}
				}
			})
		}
	}
}

// ownMessages is a pipeline about two channels, which ends with QUIT. In a cluster scripts publish anywhere.
func ownMessages(rng *rand.Rand, prefix string, scripts bool) (pipeline []string) {
	channel := func() string { return prefix + string("ab"[rng.IntN(2)]) }
	pattern := func() string { return prefix + []string{"a*", "?"}[rng.IntN(2)] }
	some := func(name func() string) string {
		return []string{" " + name(), "", " " + name() + " " + name()}[rng.IntN(3)]
	}
	text := 0
	message := func() string {
		text++
		return fmt.Sprint(channel(), " ", text)
	}
	kinds := []func() string{
		func() string { return "SUBSCRIBE " + channel() },
		func() string { return "SUBSCRIBE " + channel() + " " + channel() },
		func() string { return "PSUBSCRIBE " + pattern() },
		func() string { return "SSUBSCRIBE " + channel() },
		func() string { return "UNSUBSCRIBE" + some(channel) },
		func() string { return "PUNSUBSCRIBE" + some(pattern) },
		func() string { return "SUNSUBSCRIBE" + some(channel) },
		func() string { return "PUBLISH " + message() },
		func() string { return "PUBLISH " + message() },
		func() string { return "SPUBLISH " + message() },
		func() string { return "PUBSUB NUMSUB " + channel() },
		func() string { return "PUBSUB SHARDNUMSUB " + channel() },
		func() string { return "PUBSUB NUMPAT" },
		func() string { return "PUBSUB CHANNELS " + prefix + "[ab]" },
		func() string { return "PUBSUB SHARDCHANNELS " + prefix + "[ab]" },
		func() string { return "SET " + channel() + " x" },
		func() string { return "GET " + channel() },
		func() string { return "RESET" },
	}
	if scripts {
		kinds = append(kinds, func() string {
			return "EVAL return(redis.call(ARGV[1],ARGV[2],ARGV[3])) 0 PUBLISH " + message()
		})
	}
	for range 3 + rng.IntN(12) {
		pipeline = append(pipeline, kinds[rng.IntN(len(kinds))]())
	}
	return append(pipeline, "QUIT")
}

// playOwn sends pipeline in one piece, and says what came: the replies, and the messages of each topic.
func playOwn(t *testing.T, addr, proto string, pipeline []string) string {
	t.Helper()
	c := rig.Connect(t, addr)
	defer c.Close()
	c.SetDeadline(time.Now().Add(rig.Patience))
	io.WriteString(c, "HELLO "+proto+"\r\n"+strings.Join(pipeline, "\r\n")+"\r\n")
	if v, err := c.Receive(rig.Patience); err != nil || v.IsError() {
		t.Fatalf("HELLO: %s, %v", v, err)
	}
	var replies []string
	messages := make(map[string][]string) // by kind and name of the topic
	stands := make(map[string]bool)
	var ended []string
	for {
		v, err := c.Receive(rig.Patience)
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%q: %v behind %q", pipeline, err, replies)
		}
		if len(v.Elems) > 2 {
			kind, topic := v.Elems[0].Text, v.Elems[1].Text
			before, messaged := strings.CutSuffix(kind, "message")
			switch begins := before + "subscribe " + topic; {
			case messaged:
				messages[kind+" "+topic] = append(messages[kind+" "+topic], v.String())
				if !stands[begins] {
					t.Errorf("%q: %s comes behind %q", pipeline, v, replies)
				}
				continue
			case strings.Contains(kind, "unsubscribe"): // of all topics, in no order
				delete(stands, strings.Replace(kind, "un", "", 1)+" "+topic)
				ended = append(ended, kind+" "+topic)
				v.Elems[1].Text = ""
			case strings.HasSuffix(kind, "subscribe"):
				stands[kind+" "+topic] = true
			}
		}
		if v.Text == "RESET" {
			clear(stands)
		}
		elems := v.Strings()
		slices.Sort(elems) // PUBSUB CHANNELS has no order
		replies = append(replies, v.Text+strings.Join(elems, " "))
	}
	var out strings.Builder
	slices.Sort(ended)
	fmt.Fprintf(&out, "%q\nended: %q", replies, ended)
	for _, topic := range slices.Sorted(maps.Keys(messages)) {
		fmt.Fprintf(&out, "\n%s: %q", topic, messages[topic])
	}
	return out.String()
}
