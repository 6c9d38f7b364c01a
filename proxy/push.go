package proxy

import (
	"lockproxy/internal/loop"
	"lockproxy/proxy/client"
)

// Push sends the push that message makes as soon as possible: behind the answer of command tag, and never
// inside an answer.
func (s *session) Push(tag uint32, message func(proto int) []byte) {
	if s.gone {
		return
	}
	if b := message(s.Proto); len(b) > 0 {
		s.out.pushBytes(tag, b)
	}
}

// PushMessage gives the client a message, behind the answer to the command by which it listens, and says
// whether that command is answered: if the message came earlier it would be taken for the answer to an
// earlier command. told: it was answered before. What the client may have published itself comes
// behind the answer to that, as with Redis since 7.2. message is a reply of RESP2, whose first byte may be
// changed; but if it is larger than loop.Shared it must not be changed any more.
func (s *session) PushMessage(message []byte, behind uint32, told bool) bool {
	kind := replyKinds[s.Proto]
	if len(message) <= loop.Shared {
		message[0], kind = kind[0], nil
	} else {
		message = message[1:]
	}
	if !told && s.answers.has(behind) {
		s.out.pushBytes(behind, kind)
		s.out.pushBytes(behind, client.Lasting(message))
		return false
	}
	if s.Proto == 3 && s.answers.has(s.answers.published) {
		s.out.pushBytes(s.answers.published, kind)
		s.out.pushBytes(s.answers.published, client.Lasting(message))
		return true
	}
	if s.answers.midAnswer() {
		s.out.late.Add(kind)
		s.out.late.Add(message)
		s.out.held += len(kind) + len(message)
		s.out.check()
		return true
	}
	if kind != nil {
		s.out.write(kind)
	}
	s.out.write(message)
	return true
}

// replyKinds are the first bytes of messages, by protocol.
var replyKinds = [...][]byte{2: []byte("*"), 3: []byte(">")}
