package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// profile loads lockproxy for some seconds, with GETs or, with -only lock or redlock,
// with pairs of LOCK and UNLOCK, saves its CPU profile and prints what it allocated.
func (y *yard) profile(ctx context.Context, o options) error {
	if len(y.lockproxy) == 0 {
		return fmt.Errorf("-cpuprofile needs a lockproxy")
	}
	admin := y.admin
	const seconds = 5
	ctx, cancel := context.WithTimeout(ctx, patience+seconds*time.Second)
	defer cancel()
	what := "GET"
	send := func(ctx context.Context) (sample, error) {
		return redisBenchmark(ctx, y.lockproxy[0], "GET", 50, o.pipeline, o.requests)
	}
	conns, pipeline := 50, o.pipeline
	switch o.only {
	case "lock":
		what = "LOCK + UNLOCK"
		send = func(ctx context.Context) (sample, error) {
			return throughProxy(y.lockproxy[0], y.masterPIDs).measure(ctx, shape{what, 50, o.pipeline, 1}, o)
		}
	case "redlock":
		n := quorums[0]
		what, conns, pipeline = fmt.Sprintf("LOCK + UNLOCK over %d masters", n), contenders, 1
		ways, end := y.independentWays(n)
		defer end()
		admin = y.quorums[n].admin
		send = func(ctx context.Context) (sample, error) { return ways[0].alone(ctx, conns, 1000) }
	}
	progress("profile of %d s: %s, %d connections, %d commands at a time", seconds, what, conns, pipeline)
	before, err := allocations(ctx, admin)
	if err != nil {
		return err
	}
	loaded, stop := context.WithCancel(ctx)
	idle := make(chan error, 1)
	go func() { // until stop
		for {
			if _, err := send(loaded); err != nil {
				idle <- err
				return
			}
		}
	}()
	profile, err := fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", admin, seconds))
	early := loaded.Err() == nil && len(idle) > 0
	stop()
	if broken := <-idle; early {
		return broken
	}
	if err != nil {
		return err
	}
	after, err := allocations(ctx, admin)
	if err != nil {
		return err
	}
	n := after.commands - before.commands
	fmt.Printf("\n%s, %d commands at a time: %.2f allocations and %.0f bytes a command in the proxy\n",
		what, pipeline, (after.objects-before.objects)/n, (after.bytes-before.bytes)/n)
	progress("profile in %s: go tool pprof -top %[1]s", o.cpuprofile)
	return os.WriteFile(o.cpuprofile, profile, 0o644)
}

// allocated is what a proxy has allocated so far, and for how many commands.
type allocated struct{ commands, objects, bytes float64 }

func allocations(ctx context.Context, admin string) (allocated, error) {
	text, err := fetch(ctx, "http://"+admin+"/metrics")
	m := parseMetrics(string(text))
	return allocated{m["lockproxy_commands_total"], m["go_memstats_mallocs_total"],
		m["go_memstats_alloc_bytes_total"]}, err
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, answer.Status, body)
	}
	return body, err
}
