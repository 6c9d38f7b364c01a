package files

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/cmd/lockproxy/settings"
)

// ReadDetours are those of upstream-map or upstream-map-file. Its errors name the setting. In the file #
// begins a comment, and a line break parts two of them as a comma does.
func ReadDetours(v *settings.Values) (cluster.Detours, error) {
	if v.DetoursFile == "" {
		return v.Detours, nil
	}
	text, err := readText("upstream-map-file", v.DetoursFile)
	if err != nil {
		return nil, err
	}
	var all strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		all.WriteString(line + "\n")
	}
	d, err := cluster.ParseDetours(all.String())
	if err != nil {
		return nil, fmt.Errorf("upstream-map-file %s: %w", v.DetoursFile, err)
	}
	return d, nil
}

// LiveDetours are the detours that connections take from now on. Safe for concurrent use. The zero
// LiveDetours has none: each address is reached as it is announced.
type LiveDetours struct {
	now atomic.Pointer[cluster.Detours]
}

// Of is where the node is reached that announces addr. It may be called from any goroutine, for each
// connection that is made.
func (t *LiveDetours) Of(addr string) string {
	if d := t.now.Load(); d != nil {
		return d.Of(addr)
	}
	return addr
}

// Follow takes over what the settings say, unless they name a file that cannot be used now.
func (t *LiveDetours) Follow(v *settings.Values) {
	if d, err := ReadDetours(v); err == nil {
		t.now.Store(&d)
	}
}

// Watch rereads the file until ctx ends. What cannot be used is logged once, and what was read before stays
// in use.
func (t *LiveDetours) Watch(ctx context.Context, c *settings.Config, log *slog.Logger) {
	tick := time.NewTicker(rereadEvery)
	defer tick.Stop()
	// what was logged last, so the same mistake is logged once and not each two seconds
	told := ""
	// Without a file there is nothing to watch: that setting needs a restart.
	for c.Values().DetoursFile != "" {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d, err := ReadDetours(c.Values())
		if err != nil {
			if err.Error() != told {
				told = err.Error()
				log.Error("addresses of nodes cannot be reread: those read before stay in use", "err", err)
			}
			continue
		}
		told = ""
		if now := t.now.Load(); now == nil || d.String() != now.String() {
			t.now.Store(&d)
			log.Info("addresses of nodes reread", "file", c.Values().DetoursFile, "upstream-map", d.String())
		}
	}
}
