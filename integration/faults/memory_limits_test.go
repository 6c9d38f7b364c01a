//go:build limits

package faults

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// Clients that never read cost 32 MiB of replies each, what was on its way when they were read from no more,
// and as much again until the collector comes.
func TestLimitMemoryOfClientsThatNeverRead(t *testing.T) {
	for _, upstream := range []string{rig.SharedRedis().Addr, rig.SharedCluster().Addrs()} {
		p := rig.StartBinary(t, rig.LeanBinary(t), "--upstream", upstream)
		_, end := clientsThatNeverRead(t, p)
		var worst int64
		for over := time.Now().Add(3 * time.Second); time.Now().Before(over); {
			worst = max(worst, p.RSS(t))
			time.Sleep(50 * time.Millisecond)
		}
		end()
		if worst > 600<<20 {
			t.Errorf("4 clients that read nothing: %d MB of memory", worst>>20)
		}
		t.Logf("resident at most %d MB", worst>>20)
	}
}

// Nobody keeps a large value, and of large replies that are not read a few buffers a client are kept.
func TestLimitMemoryOfLargeValues(t *testing.T) {
	const size, clients = 100 << 20, 10
	p := rig.StartBinary(t, rig.LeanBinary(t), "--upstream", rig.StartRedis(t).Addr)
	c := rig.Connect(t, p.Addr)
	c.Must(t, "SET", "large", strings.Repeat("v", size))
	wrote := p.RSS(t)
	c.Must(t, "GET", "large")
	if read := p.RSS(t); max(wrote, read) > 64<<20 {
		t.Errorf("a value of %d MB: %d MB of memory after SET, %d MB after GET", size>>20, wrote>>20,
			read>>20)
	}
	before := p.RSS(t)
	for range clients {
		d := rig.Connect(t, p.Addr)
		d.Send("GET", "large")
		if _, err := d.Reader.Peek(1); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(500 * time.Millisecond)
	if n := p.RSS(t) - before; n > clients<<20 {
		t.Errorf("%d MB more memory for %d clients that do not read", n>>20, clients)
	}
}
