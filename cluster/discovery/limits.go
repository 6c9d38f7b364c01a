package discovery

import (
	"context"
	"strconv"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// limitsTimeout ends the question to one master.
const limitsTimeout = 2 * time.Second

// Limits asks all masters. Those that do not answer or do not allow the question are left out. It blocks
// until ctx ends at most.
func (u *Upstream) Limits(ctx context.Context) (l cluster.Limits) {
	for _, n := range u.Topology().Masters {
		ctx, cancel := context.WithTimeout(ctx, limitsTimeout)
		answers, err := u.asker.ask(ctx, n.Addr, u.o.Logins,
			[]any{"CONFIG", "GET", "proto-max-bulk-len"}, []any{"CONFIG", "GET", "client-query-buffer-limit"})
		cancel()
		if err == nil {
			l.Bulk, l.Buffer = lower(l.Bulk, setting(answers[0])), lower(l.Buffer, setting(answers[1]))
		}
	}
	return l
}

// setting is the number in a reply to CONFIG GET of one parameter, 0 if there is none.
func setting(v resp.Value) int {
	if v.IsError() || len(v.Elems) != 2 {
		return 0
	}
	n, err := strconv.Atoi(v.Elems[1].Text())
	if err != nil {
		return 0
	}
	return n
}

// lower is the lower of two numbers; 0 stands for no number.
func lower(a, b int) int {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}
