package proxy

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
)

// A script may run for as long as it likes while its node says that it is busy. One whose node
// says otherwise, or nothing, will never be answered: its client is told so.
func TestSilentScript(t *testing.T) {
	const busy = "-BUSY Redis is busy running a script.\r\n"
	for name, node := range map[string]struct {
		ping  string        // the answer to PING meanwhile
		takes time.Duration // the script, for ever if 0
		dead  bool          // it takes no further connection
		want  string
		in    time.Duration
	}{
		"busy": {ping: busy, takes: 10 * time.Minute, want: "+done\r\n", in: 10 * time.Minute},
		"not busy": {ping: "+PONG\r\n", want: "-ERR the connection was lost after the command was sent",
			in: 10 * time.Second},
		"silent": {ping: "-", want: "-ERR the connection was lost after the command was sent",
			in: 10 * time.Second},
		"dead": {dead: true, want: "-ERR the connection was lost after the command was sent",
			in: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			answer := func(_ int, command string) string {
				switch {
				case strings.HasPrefix(command, "EVALSHA"):
					if node.takes == 0 {
						return "-"
					}
					time.Sleep(node.takes)
					return "+done\r\n"
				case command == "PING":
					return node.ping
				}
				return "+OK\r\n"
			}
			o := Options{Pipes: pipe.Options{Budget: time.Second, Timeout: 2 * time.Second}}
			inBubble(t, 1, o, answer, func(r *rig) {
				var dials atomic.Int32
				r.as = func(n int, _ cluster.Mode, _ bool) (int, error) {
					if dials.Add(1) > 1 && node.dead {
						return 0, errors.New("no route to host")
					}
					return n, nil
				}
				c := r.connect()
				start := time.Now()
				c.send("EVALSHA abc 1 k")
				c.SetReadDeadline(start.Add(time.Hour))
				line, err := c.r.ReadString('\n')
				if !strings.HasPrefix(line, node.want) {
					t.Errorf("got %q (%v), want %q", line, err, node.want)
				}
				if took := time.Since(start); took < node.takes || took > node.in {
					t.Errorf("it took %v, want at most %v", took, node.in)
				}
			})
		})
	}
}
