package table

import (
	"context"
	"testing"

	"lockproxy/commands"
)

// odd is an upstream whose answer to COMMAND makes no table.
type odd struct{}

func (odd) Command(context.Context) ([]byte, error) { return []byte("*1\r\n:1\r\n"), nil }

// An answer that makes no table is none, also the second time: nobody is served without a table.
func TestAnswerThatMakesNoTable(t *testing.T) {
	l := &Learner{Upstream: odd{}, Use: func(*commands.Table) { t.Error("a table is made of it") }}
	for n := range 2 {
		if err := l.Learn(t.Context()); err == nil {
			t.Errorf("question %d: no error", n+1)
		}
	}
}
