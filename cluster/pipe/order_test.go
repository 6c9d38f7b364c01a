package pipe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/scripted"
	"lockproxy/internal/slot"
)

// ofOne is the Receiver of what one client has sent: all, before any of it is answered.
type ofOne struct {
	*keeper
	last uint32
}

func (o ofOne) Order(tag uint32) (int64, uint32, bool) { return 1, tag, tag == o.last }

// ofRead is one for what only reads, ofLock for a request about a lock.
type (
	ofRead struct{ ofOne }
	ofLock struct{ ofOne }
)

func (ofRead) Apart(uint32, int) (Mode, bool) { return Mode{}, false }

// ofBig is ofRead for a reply that comes over a connection of the client's own.
type ofBig struct {
	ofOne
	apart *bool // it does already
}

func (o ofBig) Apart(uint32, int) (Mode, bool) {
	is := *o.apart
	*o.apart = true
	return Mode{Proto: 2, Second: true}, !is
}

func (o ofBig) Receive(tag uint32, chunk []byte, last bool) {
	if last {
		o.note("%d whole", tag)
	}
}
func (ofLock) Repeated(uint32) {}

// What is refused, or lost, is sent again unless something that its client has sent behind it has run. R33
func TestSentAgainInOrder(t *testing.T) {
	const (
		loading  = "-LOADING Redis is loading the dataset in memory\r\n"
		tryAgain = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
		gone     = "" // the connection ends
	)
	// Replies are those of a node to the first try; later ones are answered +OK. ALL concerns all slots.
	for name, test := range map[string]struct {
		sent  string // commands with commas between them
		first map[string]string
		want  string
	}{
		"refused, and a write of the slot behind it": {"SET {k}1, SET {k}2",
			map[string]string{"SET {k}1": loading}, "0 LOADING, 1 OK"},
		"refused, and a write of another slot": {"SET k, SET j",
			map[string]string{"SET k": loading}, "0 OK, 1 OK"},
		"refused, and a write to all slots": {"SET k, ALL",
			map[string]string{"SET k": loading}, "0 LOADING, 1 OK"},
		"to all slots, and a write": {"ALL, SET k",
			map[string]string{"ALL": loading}, "0 LOADING, 1 OK"},
		"all refused": {"SET {k}1, SET {k}2",
			map[string]string{"SET {k}1": loading, "SET {k}2": loading}, "0 OK, 1 OK"},
		"refused, and a read behind it": {"SET k, GET k",
			map[string]string{"SET k": loading, "GET k": "+old\r\n"}, "0 OK, 1 OK"},
		"refused, a read and a write": {"SET k, GET k, SET k",
			map[string]string{"SET k": loading, "GET k": "+old\r\n"}, "0 LOADING, 1 old, 2 OK"},
		"in two parts, and one of them": {"MSET {k}1 {k}2, SET {k}1",
			map[string]string{"MSET {k}1 {k}2": tryAgain, "SET {k}1": "-ASK 7629 b:1\r\n"},
			"0 OK, 1 OK"},
		"elsewhere, and what is here": {"SET {k}1, SET {k}2",
			map[string]string{"SET {k}1": "-ASK 7629 b:1\r\n"}, "0 OK, 1 OK"},
		"moved, and back again": {"SET k, SET k 2",
			map[string]string{"SET k": "-MOVED 7629 b:1\r\n"}, "0 not run, 1 OK"},
		"lost with a write behind it": {"GET k, SET k",
			map[string]string{"GET k": gone}, "0 unknown, 1 unknown"},
		"lost with a write before it": {"SET k, GET k",
			map[string]string{"SET k": gone}, "0 unknown, 1 OK"},
		"lost with a write elsewhere": {"GET k, SET j",
			map[string]string{"GET k": gone}, "0 OK, 1 unknown"},
		"lost with a lock behind it": {"GET k, LOCK k",
			map[string]string{"GET k": gone}, "0 unknown, 1 OK"},
		"a lock, lost with a write": {"LOCK k, SET k",
			map[string]string{"LOCK k": gone}, "0 OK, 1 unknown"},
		"refused, and lost behind it": {"SET k, GET k, SET k 2",
			map[string]string{"SET k": loading, "GET k": gone}, "0 LOADING, 1 unknown, 2 unknown"},
		"refused, and a read lost with it": {"SET k, GET k",
			map[string]string{"SET k": loading, "GET k": gone}, "0 OK, 1 OK"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := make(map[string]bool)
				a := &scripted.Node{Answer: func(command string) string {
					reply, ok := test.first[command]
					if !ok || seen[command] {
						return "+OK\r\n"
					}
					seen[command] = true
					return reply
				}}
				r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": a, "b:1": {Answer: ok}})
				commands := strings.Split(test.sent, ", ")
				k := ofOne{new(keeper), uint32(len(commands) - 1)}
				r.on(func() {
					for i, line := range commands {
						words := strings.Fields(line)
						req := &Request{
							Target: ToShard(0), Mode: Mode{Proto: 2}, Bytes: command(words...),
							To: k, Tag: uint32(i),
						}
						if len(words) > 1 {
							req.Target = ToSlot(slot.Of([]byte(words[1])))
						}
						switch words[0] {
						case "GET":
							req.To, req.Resend = ofRead{k}, true
						case "LOCK":
							req.To, req.Resend = ofLock{k}, true
						}
						r.pool.Send(req)
					}
				})
				time.Sleep(time.Second)
				synctest.Wait()
				slices.Sort(k.heard)
				tidy := strings.NewReplacer(`"+`, "", `"-`, "", `\r\n"`, "",
					" "+strings.TrimSpace(loading[9:]), "", " "+strings.TrimSpace(tryAgain[10:]), "")
				if got := tidy.Replace(strings.Join(k.heard, ", ")); got != test.want {
					t.Errorf("%s: %s, want %s; the node saw %s", test.sent, got, test.want, a.Commands())
				}
			})
		})
	}
}

// What waits for its turn waits for what came behind the latest refusal, too. R33
func TestRefusedBehindRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const loading = "-LOADING Redis is loading\r\n"
		first := map[string]string{"SET j": loading, "SET k": loading, "GET k": "+old\r\n"}
		r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": {Answer: func(command string) string {
			if command == "SET k" {
				time.Sleep(2 * time.Millisecond)
			}
			reply := cmp.Or(first[command], "+OK\r\n")
			delete(first, command)
			return reply
		}}})
		k := ofOne{new(keeper), 2}
		send := func(tag uint32, to Receiver, words ...string) {
			r.on(func() {
				r.pool.Send(&Request{
					Target: ToSlot(slot.Of([]byte(words[1]))), Mode: Mode{Proto: 2}, Bytes: command(words...),
					To: to, Tag: tag, Resend: tag == 2,
				})
			})
		}
		send(0, k, "SET", "j")
		send(1, k, "SET", "k")
		time.Sleep(time.Millisecond) // SET j is refused, SET k is not yet
		send(2, ofRead{k}, "GET", "k")
		time.Sleep(time.Second)
		synctest.Wait()
		k.want(t, "replies", `0 "+OK\r\n"`, `1 "+OK\r\n"`, `2 "+OK\r\n"`)
	})
}

// A read that is to run once more does not end with what it has read before. R33
func TestGivenUpReadIsNotOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Budget: 100 * time.Millisecond}, map[string]*scripted.Node{"a:1": {
			Answer: func(command string) string {
				if command == "GET k" {
					return "+old\r\n"
				}
				return "-LOADING Redis is loading\r\n"
			},
		}})
		k := ofOne{new(keeper), 1}
		r.on(func() {
			req := Request{
				Target: ToSlot(slot.Of([]byte("k"))), Mode: Mode{Proto: 2}, Bytes: command("SET", "k"), To: k,
			}
			r.pool.Send(&req)
			req.Bytes, req.To, req.Tag, req.Resend = command("GET", "k"), ofRead{k}, 1, true
			r.pool.Send(&req)
		})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		k.want(t, "replies", `0 "-LOADING Redis is loading\r\n"`, "1 not run")
	})
}

// A long reply is asked for once more, over another connection, also if its request was sent again before.
// What its client has sent before it, and is aside, does not run any more then. R33
func TestLongRepliesInOrder(t *testing.T) {
	long := fmt.Sprintf("$%d\r\n%s\r\n", 2*cluster.MaxShared, strings.Repeat("x", 2*cluster.MaxShared))
	for name, test := range map[string]struct{ first, refusal, want string }{
		"sent again":     {"GET {k}2", "-MOVED 7629 b:1\r\n", `0 "+OK\r\n"; 1 whole`},
		"behind another": {"SET {k}1", "-LOADING wait\r\n", `0 "-LOADING wait\r\n"; 1 whole`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := make(map[string]bool)
				a := &scripted.Node{Answer: func(command string) string {
					again := seen[command]
					seen[command] = true
					switch {
					case command == test.first && !again:
						return test.refusal
					case command == "GET {k}2":
						return long
					}
					return "+OK\r\n"
				}}
				b := &scripted.Node{Answer: func(string) string { return long }}
				r := newRig(t, Options{}, map[string]*scripted.Node{"a:1": a, "b:1": b})
				k := ofOne{new(keeper), 1}
				r.on(func() {
					to := ToSlot(slot.Of([]byte("k")))
					r.pool.Send(&Request{Target: to, Mode: Mode{Proto: 2}, Bytes: command("SET", "{k}1"),
						To: k})
					r.pool.Send(&Request{Target: to, Mode: Mode{Proto: 2}, Bytes: command("GET", "{k}2"),
						To: ofBig{k, new(bool)}, Tag: 1, Resend: true})
				})
				time.Sleep(time.Second)
				synctest.Wait()
				k.want(t, a.Commands(), test.want)
			})
		})
	}
}
