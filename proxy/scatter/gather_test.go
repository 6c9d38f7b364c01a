package scatter

import (
	"bytes"
	"fmt"
	"testing"

	"lockproxy/commands"
	"lockproxy/proxy/client"
)

// host counts what a Gather does on the loop, and what beside it.
type host struct {
	Host
	inTurn, beside int
	answer         []byte
}

func (h *host) CurrentTag() uint32                    { return 1 }
func (h *host) AnswerLater(client.By)                 {}
func (h *host) Collect(uint32, int)                   {}
func (h *host) Lend(uint32, int)                      {}
func (h *host) CountMemory()                          {}
func (h *host) Gone() bool                            { return false }
func (h *host) About() *commands.Client               { return &commands.Client{Proto: 2} }
func (h *host) Answer(_ uint32, reply []byte)         { h.answer = reply }
func (h *host) Resume(_ uint32, answer func() []byte) { h.answer = answer() }
func (h *host) InTurn(f func())                       { h.inTurn++; f() }
func (h *host) Background(task, then func())          { h.beside++; task(); then() }

// The loop joins short replies when it is their turn; a goroutine joins long ones.
func TestLongRepliesAreJoinedBesideTheLoop(t *testing.T) {
	join := func(_ int, replies [][]byte) []byte { return bytes.Join(replies, nil) }
	for _, size := range []int{10, client.LongFrom} {
		for _, pure := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d bytes, pure %v", size, pure), func(t *testing.T) {
				h := &host{}
				g := NewGather(h, 3, join, false)
				g.pure = pure
				reply := bytes.Repeat([]byte("x"), size/3+1)
				for i := range uint32(3) {
					g.Receive(i, reply[:size/6], false)
					g.Receive(i, reply[size/6:], true)
				}
				if want := bytes.Repeat(reply, 3); !bytes.Equal(h.answer, want) {
					t.Errorf("%d bytes of %d", len(h.answer), len(want))
				}
				long := 0
				if size == client.LongFrom {
					long = 1
				}
				if h.beside != long || h.inTurn != 1-long {
					t.Errorf("%d times beside the loop, %d times on it", h.beside, h.inTurn)
				}
			})
		}
	}
}
