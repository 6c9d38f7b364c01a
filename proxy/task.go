package proxy

import (
	"context"

	"lockproxy/commands"
)

// parkTask is Task for a task that has its answer made on the loop, by the function that it returns. That runs
// also when the client has gone. post brings it to the loop.
func (s *session) parkTask(task func(ctx context.Context) (end func() []byte), post func(func()) bool, lost func()) {
	s.acted = true
	if s.ctx == nil {
		s.ctx, s.cancel = context.WithCancelCause(s.w.server.ctx)
	}
	if s.gone || s.eof {
		s.cancel(errClientGone)
	} else if s.draining {
		s.cancel(commands.ErrDraining)
	}
	tag, ctx := s.current, s.ctx
	a := s.answers.at(tag)
	a.lost, a.by = lost, byProxy
	waits := a.counter.blocks
	if waits {
		s.waitForLock()
	}
	s.setHold(holdTask)
	s.w.server.tasks.Add(1)
	go func() { // ends when the task does, which ctx bounds
		defer s.w.server.tasks.Done()
		end := task(ctx)
		posted := post(func() {
			reply := end()
			if waits {
				reply = s.waitedForLock(ctx, reply)
			}
			s.taskDone(tag, reply)
		})
		if !posted && lost != nil {
			lost()
		}
	}()
}

func (s *session) taskDone(tag uint32, reply []byte) {
	if len(reply) == 0 {
		reply = noAnswer
	}
	s.noteError(reply)
	s.answer(tag, reply)
	s.clearHold(holdTask)
	s.endIfDone()
}
