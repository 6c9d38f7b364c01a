package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// sample is one measurement of one contender.
type sample struct {
	rate     float64            // requests a second
	p50, p99 time.Duration      // from a batch being sent to its last reply
	redis    time.Duration      // CPU of Redis, a request; of pairs, scripts, renewals and grants
	account  time.Duration      // that Redis itself accounts for, a request; of scripts and renewals
	cpu      time.Duration      // of the proxy, a request; 0 where there is none
	client   time.Duration      // CPU of this program, a grant; of contests and of RedLock
	inside   time.Duration      // that it accounts for the commands inside a script; of drains
	shares   []float64          // µs that each of percents took at most; of drains
	p999     time.Duration      // as p99; of paced load
	commands map[string]float64 // that Redis ran for one, by name; of hand-overs
	objects  float64            // that the proxy allocates, and their bytes; of pairs
	bytes    float64            // also what its memory grew by; of idle clients and large values
}

// keys is how many different keys are used.
const keys = 100000

// redisBenchmark lets redis-benchmark send n times a command.
//
// It runs with one thread for every contender: with --cluster it takes one a
// master unless told. The keys differ in one pair of letters: with --cluster
// {tag} becomes the tag of the connection's master, else [tag] is no tag.
func redisBenchmark(ctx context.Context, c contender, command string,
	connections, pipeline, n int) (sample, error) {
	host, port, _ := strings.Cut(c.addr, ":")
	args := []string{"-h", host, "-p", port, "--threads", "1", "--precision", "3",
		"-c", strconv.Itoa(connections), "-P", strconv.Itoa(pipeline), "-n", strconv.Itoa(n)}
	key := "key:[tag]:__rand_int__"
	if c.cluster {
		key = "key:{tag}:__rand_int__"
		args = append(args, "--cluster", "-r", strconv.Itoa(keys/nodes)) // it uses one tag a master
	} else {
		args = append(args, "-r", strconv.Itoa(keys))
	}
	args = append(args, command, key)
	if command == "SET" {
		args = append(args, "xxx")
	}
	before, err := c.cpu()
	if err != nil {
		return sample{}, err
	}
	cmd := exec.CommandContext(ctx, "redis-benchmark", args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return sample{}, fmt.Errorf("redis-benchmark %s: %w\n%s", strings.Join(args, " "), err, tail(out))
	}
	after, err := c.cpu()
	if err != nil {
		return sample{}, err
	}
	s, err := parseReport(string(out))
	if err != nil {
		return sample{}, fmt.Errorf("redis-benchmark %s: %w\n%s", strings.Join(args, " "), err, tail(out))
	}
	return s.withCPU(after-before, n), nil
}

// cpu is what the contender's proxy has used so far.
func (c contender) cpu() (time.Duration, error) {
	if c.pid == 0 {
		return 0, nil
	}
	t, err := cpuTime(c.pid)
	if err != nil {
		err = fmt.Errorf("CPU time of %s: %w", c.name, err)
	}
	return t, err
}

// cpuOf is what several processes have used so far together.
func cpuOf(pids []int) (all time.Duration, err error) {
	for _, pid := range pids {
		t, err := cpuTime(pid)
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		all += t
	}
	return all, nil
}

// parseReport reads what redis-benchmark prints.
//
// With threads it looks only every 250 ms whether all is done, so that the rate
// of its summary is wrong by that. The last of its interim reports, "rps=1.0
// (overall: 2.0)", is exact; only a run too short for one counts as summed up.
func parseReport(text string) (sample, error) {
	var s sample
	body, summary, ok := strings.Cut(text, "Summary:")
	if !ok {
		return s, fmt.Errorf("no summary in the report")
	}
	for _, part := range strings.Split(body, "(overall: ")[1:] {
		number, _, _ := strings.Cut(part, ")")
		// avg_msec has one such bracket too, behind the rate's.
		if !strings.HasPrefix(strings.TrimPrefix(part, number+")"), " avg_msec") {
			continue
		}
		if f, err := strconv.ParseFloat(number, 64); err == nil && f > 0 && !math.IsInf(f, 0) {
			s.rate = f
		}
	}
	lines := strings.Split(summary, "\n")
	for i, line := range lines {
		fields := strings.Fields(line)
		switch {
		case s.rate == 0 && len(fields) > 2 && fields[0] == "throughput":
			s.rate, _ = strconv.ParseFloat(fields[2], 64)
		case len(fields) == 6 && fields[2] == "p50" && i+1 < len(lines):
			values := strings.Fields(lines[i+1])
			if len(values) != 6 {
				return s, fmt.Errorf("latency summary %q", lines[i+1])
			}
			p50, err50 := strconv.ParseFloat(values[2], 64)
			p99, err99 := strconv.ParseFloat(values[4], 64)
			if err50 != nil || err99 != nil {
				return s, fmt.Errorf("latency summary %q", lines[i+1])
			}
			s.p50, s.p99 = milliseconds(p50), milliseconds(p99)
		}
	}
	if s.rate <= 0 || s.p50 <= 0 || s.p99 <= 0 {
		return s, fmt.Errorf("incomplete report")
	}
	return s, nil
}

func milliseconds(f float64) time.Duration {
	return time.Duration(f * float64(time.Millisecond))
}

func tail(out []byte) []byte { return out[max(0, len(out)-1000):] }

// withCPU notes the CPU time of the proxy during n requests.
func (s sample) withCPU(used time.Duration, n int) sample {
	s.cpu = used / time.Duration(n)
	return s
}

// progress tells the person at the terminal how far this is.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
