package proxy

import (
	"time"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/large"
)

const (
	// roundCommands is after how many commands of a client the loop checks whether the round has taken longer
	// than loop.RoundTime. If so, others have their turn first.
	roundCommands = 32
	// maxScratch is the size of a command up to which its arguments stay in the scratch memory of the worker.
	maxScratch = 64 << 10
)

// input frames the commands of one client. guard keeps how far an incomplete command has been looked at, so
// no byte is looked at twice.
type input struct {
	guard resp.InputGuard
	long  *large.LongCommand // the command at the front of the input, if it is long

	bytes, commands uint64 // that came
	left            int    // bytes that the last Read has not consumed
}

// Read implements loop.Handler. buf has all that has come and was not consumed: the front of it may have been
// seen before. It runs on the loop, and never within itself.
func (s *session) Read(buf []byte) int {
	s.active = s.w.loop.Now()
	if len(buf) > s.in.left { // what was here before proves nothing
		s.out.deliveries.Prove()
	}
	s.reading = true
	s.w.input = len(buf)
	used := s.readCommands(buf)
	s.in.left = len(buf) - used
	s.reading = false
	s.own.Turn()
	if s.tx.IsOpen() || len(s.answers.buf) > manyAnswers {
		s.CountMemory()
	}
	s.w.bytesIn.Add(uint64(used))
	s.in.bytes += uint64(used)
	s.EndIfDone()
	return used
}

// readCommands starts the whole commands at the front of buf, and returns how many bytes they take. It ends
// at an incomplete command, at a hold, at a round that has taken long, and at bytes that are no command.
func (s *session) readCommands(buf []byte) (used int) {
	if s.upload.cmd != nil {
		used = s.upload.readCommand(buf)
	}
	for ran := 0; s.upload.cmd == nil && used < len(buf) && s.hold == 0 && !s.gone && s.router.inOrder(); {
		n, args, err := s.in.nextCommand(buf[used:], s.w.shared.Limits.Of(s.Authenticated), s.w.args)
		if err != nil {
			refuseBytes(s, err)
			return len(buf)
		}
		if n == 0 && s.upload.beginsCommand(buf[used:]) {
			break
		}
		// The loop then reads straight into a buffer of the right size.
		if n == 0 {
			s.conn.Need(s.in.guard.Missing(), s.in.guard.Likely(buf[used:]))
			break
		}
		if n > client.LongFrom && s.in.long == nil {
			s.in.takeApart(s, buf[used:used+n])
			break // it comes again
		}
		isLarge := n > cluster.MaxShared || s.large.reads > 0 && s.large.takesRead(s, args)
		if (isLarge || s.large.on) && !s.large.turnConnections(s, isLarge) {
			break
		}
		raw := buf[used : used+n]
		if args == nil {
			if args, raw, err = resp.Split(raw, s.w.args); err != nil {
				refuseBytes(s, err)
				return len(buf)
			}
		}
		if len(args) > 0 {
			s.w.args = args
			taken := s.router.dispatchCommand(args, raw)
			if len(raw) > maxScratch {
				s.w.args = nil // otherwise they would keep the command in memory
			}
			if !taken {
				break // it comes again
			}
		}
		s.in.long = nil
		used += n
		if ran++; ran%roundCommands == 0 && time.Since(s.w.loop.Now()) > loop.RoundTime {
			s.SetHold(client.HoldRound)
			s.w.loop.Post(func() { s.ClearHold(client.HoldRound) })
		}
	}
	return used
}

// nextCommand is Guard.NextArgs, or what a goroutine has found of the command at the front of the input.
func (in *input) nextCommand(
	buf []byte, limits *resp.Limits, scratch [][]byte,
) (n int, args [][]byte, err error) {
	if in.long != nil {
		return in.long.Size, in.long.Args, in.long.Err
	}
	return in.guard.NextArgs(buf, limits, scratch)
}

// takeApart makes a goroutine take raw apart; then raw is read once more. If one master has the keys of all
// slots, nobody needs the slots. The bytes stay where they are meanwhile: the session consumes nothing, and
// the loop writes to nothing so long.
func (in *input) takeApart(s *session, raw []byte) {
	long := &large.LongCommand{Size: len(raw)}
	in.long = long
	s.SetHold(client.HoldLong)
	table, scripts := s.w.table, s.w.shared.Scripts
	bySlot := s.router.BySlot()
	s.Background(func() { long.Read(table, scripts, raw, bySlot) }, func() {
		long.Ready = true
		s.ClearHold(client.HoldLong)
	})
}

// refusedPatience is how long a client may go on writing the command that was refused. So it gets the error:
// who writes it whole looks for no answer before, and a closed connection would be all that it sees.
const refusedPatience = 10 * time.Second

// refuseBytes answers bytes that are no command as Redis does, and then closes the connection. A client that
// has not logged in is not waited for: whatever it still writes is not read.
func refuseBytes(s *session, err error) {
	s.beginCommand(nil)
	s.Reply(commands.ErrorReply(err))
	if s.Authenticated {
		s.conn.EndInput(refusedPatience)
	}
	s.endSession()
}
