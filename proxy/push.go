package proxy

import (
	"lockproxy/internal/loop"
	"lockproxy/proxy/client"
)

// push is something that a client is told beside its answers.
type push struct {
	behind uint32 // the command whose answer comes before it
	bytes  []byte
}

// Push has message make a push, and writes it as soon as that is possible: behind the answer of
// command tag, and never inside an answer.
func (s *session) Push(tag uint32, message func(proto int) []byte) {
	if s.gone {
		return
	}
	if b := message(s.Proto); len(b) > 0 {
		s.pushBytes(tag, b)
	}
}

// pushBytes is push of what is made already, which must not be changed any more.
func (s *session) pushBytes(tag uint32, b []byte) {
	if len(b) == 0 {
		return
	}
	s.pushes = append(s.pushes, push{tag, b})
	s.held += len(b)
	if !s.midAnswer() {
		s.writePushes()
	}
	s.checkOutput()
}

// midAnswer says that part of an answer is written: what of the oldest one comes before
// its end goes out at once, unless the command makes its own answer of it.
func (s *session) midAnswer() bool {
	if s.answers.len() == 0 {
		return false
	}
	a := s.answers.first()
	return a.shown() && !a.done
}

// writePushes writes the messages that waited and the pushes whose turn it is. It is called between two
// answers.
func (s *session) writePushes() {
	if size := s.late.size(); size > 0 {
		late := s.late
		s.late, s.held = collected{}, s.held-size
		s.writeAll(&late)
	}
	if len(s.pushes) == 0 {
		return
	}
	kept := s.pushes[:0]
	for _, p := range s.pushes {
		if s.unanswered(p.behind) {
			kept = append(kept, p)
			continue
		}
		s.held -= len(p.bytes)
		if s.write(p.bytes); s.gone { // more waits for it than may
			return
		}
	}
	clear(s.pushes[len(kept):])
	s.pushes = kept
	if len(kept) == 0 {
		s.pushes = nil
	}
}

// PushMessage gives the client a message behind the answer to the command by which it listens, and says whether
// that is answered: before, the message would be taken for the answer to an earlier command. told: it was
// answered before. message is a reply of RESP2; its first byte may be changed, but if it is larger than
// loop.Shared nobody may write to it.
func (s *session) PushMessage(message []byte, behind uint32, told bool) bool {
	kind := replyKinds[s.Proto]
	if len(message) <= loop.Shared {
		message[0], kind = kind[0], nil
	} else {
		message = message[1:]
	}
	if !told && s.unanswered(behind) {
		s.pushBytes(behind, kind)
		s.pushBytes(behind, client.Lasting(message))
		return false
	}
	if s.midAnswer() {
		s.late.add(kind)
		s.late.add(message)
		s.held += len(kind) + len(message)
		s.checkOutput()
		return true
	}
	if kind != nil {
		s.write(kind)
	}
	s.write(message)
	return true
}

// unanswered says that command tag is not answered yet.
func (s *session) unanswered(tag uint32) bool {
	return tag-s.answers.head < s.answers.tail-s.answers.head
}

// Speak implements subscriberHost.
func (s *session) Speak(tag uint32) { s.answers.at(tag).silent = false }

// replyKinds are the first bytes of messages, by protocol.
var replyKinds = [...][]byte{2: []byte("*"), 3: []byte(">")}
