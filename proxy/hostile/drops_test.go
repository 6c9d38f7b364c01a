package hostile

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/resp"
)

// A reply that comes drop by drop does not hold up others of its node, whether or not its client stays.
func TestDrops(t *testing.T) {
	var keys []string // at the node that lies
	for i := 0; len(keys) < 3; i++ {
		if key := fmt.Sprint("key", i); atLiar(key) {
			keys = append(keys, key)
		}
	}
	for _, reply := range []string{
		"$1000\r\n" + strings.Repeat("x", 1000), "*1000\r\n" + strings.Repeat(":1\r\n", 1000),
		"+" + strings.Repeat("x", 1000), ">2\r\n+message\r\n$1000\r\n" + strings.Repeat("x", 1000),
	} {
		for _, stays := range []bool{true, false} {
			withLiar(t, func(s *stage) {
				s.tell(to("GET "+strings.ToUpper(keys[0]), reply+drops), nil)
				slow := s.connect(nil, nil)
				slow.say(resp.AppendCommandStrings(nil, "GET", keys[0]))
				time.Sleep(10 * time.Second)
				if !stays {
					slow.end()
				}
				for _, key := range keys[1:] {
					c := s.connect(nil, nil)
					c.say(resp.AppendCommandStrings(nil, "GET", key))
					time.Sleep(10 * time.Second)
					synctest.Wait()
					if string(c.got) != bulk(key) {
						t.Errorf("behind %.20q (stays: %v): %q", reply, stays, c.got)
					}
					c.end()
				}
				s.tell(nil, nil)
				slow.end()
				time.Sleep(time.Minute)
			})
		}
	}
}
