package transcripts

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// foreignKeys are what others may keep where one of our locks would be: each is made
// by one command, its arguments between bars, whose KEY stands for the key.
var foreignKeys = []struct{ name, kind, make string }{
	{"SETNX lock of old", "string", "SETNX|KEY|1795243679022"},
	{"SET NX lock", "string", "SET|KEY|8e3f7a52-55f6-41c8-9b2c-4f6ef1a1a3a1|NX|PX|60000"},
	{"SET NX lock without an end", "string", "SET|KEY|owner|NX"},
	{"empty string", "string", "SETRANGE|KEY|0|\x00"},
	{"number", "string", "INCR|KEY"},
	{"JSON", "string", `SET|KEY|{"v":1,"o":"owner","w":"9999999999999"}`},
	{"plain lock of another version", "string", "SET|KEY|lockproxy 99 7 +id owner"},
	{"list", "list", "RPUSH|KEY|a|b|owner"},
	{"set", "set", "SADD|KEY|a|b|owner"},
	{"sorted set", "zset", "ZADD|KEY|1|owner"},
	{"stream", "stream", "XADD|KEY|1-1|owner|1"},
	{"hash", "hash", "HSET|KEY|field|value"},
	{"hash of a Redisson lock", "hash", "HSET|KEY|owner|1"},
	{"hash of a read and write lock", "hash", "HSET|KEY|mode|read|owner|1|1:owner|1"},
	{"hash of another version", "hash", "HSET|KEY|v|99|o|owner|w|9999999999999"},
	{"hash with our fields, without a version", "hash", "HSET|KEY|o|owner|n|1|e|9999999999999|f|7"},
	{"HyperLogLog", "string", "PFADD|KEY|a"},
	{"bitmap", "string", "SETBIT|KEY|1000|1"},
}

// A key of another type or layout where a lock would be is LOCKTYPE for every verb, which
// says what it is and whether it ends by itself; nothing of it is changed. R3
func TestForeignKeys(t *testing.T) {
	verbs := []string{
		"LOCK NAME", "LOCK NAME TOKEN owner", "LOCK NAME TOKEN owner REENTRANT", "LOCK NAME WAIT 5000",
		"LOCK NAME TRIES 3 EVERY 10",
		"WLOCK NAME TOKEN owner", "RLOCK NAME", "RLOCK NAME TOKEN owner", "RLOCK NAME WAIT 5000",
		"SEMLOCK NAME PERMITS 2", "SEMLOCK NAME PERMITS 2 TOKEN owner WAIT 5000",
		"UNLOCK NAME owner", "UNLOCK NAME TOKEN owner FENCE 7", "RENEW NAME owner",
		"RENEW NAME owner PX 90000 FENCE 7",
		"LOCKCTL INFO NAME", "LOCKCTL CHECK NAME owner",
	}
	for name, p := range map[string]func() *rig.Proxy{"single": rig.SharedOverRedis,
		"cluster": rig.SharedOverCluster} {
		for _, ends := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, with a TTL %v", name, ends), func(t *testing.T) {
				t.Parallel()
				c := rig.Connect(t, p().Addr)
				for i, f := range foreignKeys {
					lock := fmt.Sprintf("foreign:%d:%v", i, ends)
					key := "lock:{" + lock + "}"
					c.Must(t, "DEL", key)
					c.Must(t, strings.Split(strings.ReplaceAll(f.make, "KEY", key), "|")...)
					life := regexp.MustCompile("without a time to live")
					if ends {
						c.Must(t, "PEXPIRE", key, "60000")
					}
					if c.Must(t, "PTTL", key).Int() > 0 {
						life = regexp.MustCompile("with [1-5][0-9]{4} ms to live")
					}
					time.Sleep(time.Millisecond) // so that no more than 59999 ms are left
					before, until := c.Must(t, "DUMP", key).Text, endOf(t, c, key)
					for _, verb := range verbs {
						v := c.Call(t, strings.Fields(strings.ReplaceAll(verb, "NAME", lock))...)
						if !v.IsError("LOCKTYPE") || !strings.Contains(v.Text, f.kind) ||
							!strings.Contains(v.Text, key) ||
							!life.MatchString(v.Text) {
							t.Errorf("%s: %s: %s", f.name, verb, v)
						}
						if after := c.Must(t, "DUMP", key).Text; after != before {
							t.Fatalf("%s: %s changed it:\nbefore %q\nafter  %q", f.name, verb, before, after)
						}
						if after := endOf(t, c, key); after != until {
							t.Errorf("%s: %s changed when it ends: %d, then %d", f.name, verb, until, after)
						}
					}
					// out of the way, the name is an ordinary lock
					c.Must(t, "DEL", key)
					if v := c.Must(t, "LOCK", lock, "TOKEN", "owner"); len(v.Elems) != 4 {
						t.Errorf("%s, deleted: %s", f.name, v)
					}
					c.Want(t, "(integer) 1", "UNLOCK", lock, "owner")
				}
			})
		}
	}
}

// endOf is when a key ends by itself, by the server's clock. Before Redis 7.0, which has PEXPIRETIME, that is
// the sum of two readings of its clock, between which the server may stand still: they are read again then.
func endOf(t *testing.T, c *rig.Conn, key string) int64 {
	t.Helper()
	return c.Must(t, "EVAL", `local at = redis.pcall('PEXPIRETIME', KEYS[1])
		if type(at) == 'number' then return at end
		local function clock()
			local now = redis.call('TIME')
			return now[1] * 1000 + math.floor(now[2] / 1000)
		end
		local now, left
		repeat
			now, left = clock(), redis.call('PTTL', KEYS[1])
			if left < 0 then return left end
		until clock() == now
		return now + left`, "1", key).Int()
}

// A key that turns foreign while clients wait there ends their wait with LOCKTYPE, not with a hang.
func TestKeyTurnsForeign(t *testing.T) {
	t.Parallel()
	p := rig.SharedOverCluster()
	holder := rig.Connect(t, p.Addr)
	holder.Must(t, "LOCK", "turning", "TOKEN", "h", "PX", "60000")
	var waiters []*rig.Conn
	for range 5 {
		c := rig.Connect(t, p.Addr)
		c.Send("LOCK", "turning", "WAIT", "60000")
		waiters = append(waiters, c)
	}
	rig.WaitersOf(t, p.Addr, "turning", 5)
	holder.Must(t, "SET", "lock:{turning}", "not a lock")
	for i, c := range waiters {
		if v, err := c.Receive(rig.Patience); err != nil || !v.IsError("LOCKTYPE") {
			t.Errorf("waiter %d: %s %v", i, v, err)
		}
	}
	holder.Want(t, `"not a lock"`, "GET", "lock:{turning}")
	holder.Must(t, "DEL", "lock:{turning}")
}
