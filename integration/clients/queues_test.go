package clients

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"lockproxy/integration/rig"
)

// TestBullMQ has a queue of node's BullMQ work through proxies in front of a cluster.
func TestBullMQ(t *testing.T) {
	t.Parallel()
	env, ok := nodeModules(t)
	if !ok {
		return
	}
	eachFrontend(t, func(t *testing.T, p *rig.Proxy, clustered bool) {
		frontend := map[bool]string{false: "single", true: "cluster"}[clustered]
		script(t, p, env, "node", "bullmq.js", frontend)
	})
}

// TestAsynq has a queue of Go's asynq work through proxies in front of a cluster, over a client for one Redis
// and one for a cluster.
func TestAsynq(t *testing.T) {
	t.Parallel()
	eachFrontend(t, func(t *testing.T, p *rig.Proxy, clustered bool) {
		var opt asynq.RedisConnOpt = asynq.RedisClientOpt{Addr: p.Addr, DialTimeout: rig.Patience,
			ReadTimeout: rig.Patience}
		if clustered {
			opt = asynq.RedisClusterClientOpt{Addrs: []string{p.Addr}, DialTimeout: rig.Patience,
				ReadTimeout: rig.Patience}
		}
		q := &asynqRun{queue: fmt.Sprintf("work-%v", clustered), tries: map[int]int{}, done: map[int]int{}}
		q.run(t, opt)
	})
}

// asynqRun is 1,000 tasks of a queue. Every 20th fails at its first attempt, every 100th at the first two;
// the last one is delayed.
type asynqRun struct {
	queue string

	mu    sync.Mutex
	tries map[int]int // attempts by task
	done  map[int]int // those without error
	last  time.Time   // when the delayed task ran
}

const (
	asynqTasks = 1000
	asynqDelay = 2 * time.Second
)

func asynqFailures(i int) int {
	switch {
	case i == asynqTasks-1 || i%20 != 0:
		return 0
	case i%100 != 0:
		return 1
	default:
		return 2
	}
}

// process implements asynq.Handler.
func (q *asynqRun) process(ctx context.Context, task *asynq.Task) error {
	i, err := strconv.Atoi(string(task.Payload()))
	if err != nil {
		return q.endless(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.tries[i]++; q.tries[i] <= asynqFailures(i) {
		return fmt.Errorf("attempt %d of %d", q.tries[i], i)
	}
	q.done[i]++
	if i == asynqTasks-1 {
		q.last = time.Now()
	}
	return nil
}

// endless works until the task is cancelled.
func (q *asynqRun) endless(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (q *asynqRun) finished() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.done)
}

func (q *asynqRun) run(t *testing.T, opt asynq.RedisConnOpt) {
	server := asynq.NewServer(opt, asynq.Config{
		Concurrency: 20,
		Queues:      map[string]int{q.queue: 1},
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration {
			return 100 * time.Millisecond
		},
		DelayedTaskCheckInterval: 200 * time.Millisecond,
		TaskCheckInterval:        50 * time.Millisecond,
		LogLevel:                 asynq.ErrorLevel,
	})
	if err := server.Start(asynq.HandlerFunc(q.process)); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(server.Shutdown)
	defer stop()
	c := asynq.NewClient(opt)
	defer c.Close()
	begun := time.Now()
	for i := range asynqTasks {
		options := []asynq.Option{asynq.Queue(q.queue), asynq.Retention(time.Hour),
			asynq.TaskID(fmt.Sprint("task-", i))}
		if i == asynqTasks-1 {
			options = append(options, asynq.ProcessIn(asynqDelay))
		}
		if _, err := c.Enqueue(asynq.NewTask("job", []byte(strconv.Itoa(i))), options...); err != nil {
			t.Fatalf("task %d: %v", i, err)
		}
	}
	// The same again is refused.
	if _, err := c.Enqueue(asynq.NewTask("job", nil), asynq.Queue(q.queue),
		asynq.TaskID("task-1")); !errors.Is(err, asynq.ErrTaskIDConflict) {
		t.Errorf("the same task again: %v", err)
	}
	rig.Eventually(t, rig.Patience, "all tasks are done", func() bool { return q.finished() == asynqTasks })
	t.Logf("%d tasks in %v", asynqTasks, time.Since(begun))
	inspector := asynq.NewInspector(opt)
	defer inspector.Close()
	queues, err := inspector.Queues()
	if err != nil || len(queues) == 0 {
		t.Errorf("queues: %v, %v", queues, err)
	}
	if servers, err := inspector.Servers(); err != nil || len(servers) == 0 {
		t.Errorf("servers: %v, %v", servers, err)
	}
	rig.Eventually(t, rig.Patience, "all tasks are archived as completed", func() bool {
		info, err := inspector.GetQueueInfo(q.queue)
		return err == nil && info.Completed == asynqTasks &&
			info.Active+info.Pending+info.Retry+info.Scheduled+info.Archived == 0
	})
	q.cancel(t, c, inspector)
	stop()
	q.judge(t, begun)
}

// cancel ends a task that is at work, of which its server hears by a message of Redis.
func (q *asynqRun) cancel(t *testing.T, c *asynq.Client, inspector *asynq.Inspector) {
	info, err := c.Enqueue(asynq.NewTask("endless", []byte("endless")), asynq.Queue(q.queue),
		asynq.MaxRetry(0))
	if err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, rig.Patience, "the task is cancelled", func() bool {
		if err := inspector.CancelProcessing(info.ID); err != nil {
			t.Errorf("cancel: %v", err)
		}
		now, err := inspector.GetTaskInfo(q.queue, info.ID)
		return err == nil && now.State == asynq.TaskStateArchived
	})
}

// judge says whether each task was done once, at the attempt and the time that it should be.
func (q *asynqRun) judge(t *testing.T, begun time.Time) {
	for i := range asynqTasks {
		if q.done[i] != 1 || q.tries[i] != 1+asynqFailures(i) {
			t.Errorf("task %d was done %d times in %d attempts", i, q.done[i], q.tries[i])
		}
	}
	if early := begun.Add(asynqDelay).Sub(q.last); early > time.Second {
		t.Errorf("the delayed task ran %v early", early)
	}
}
