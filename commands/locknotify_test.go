package commands_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/commands"
	"lockproxy/redlock"
	"lockproxy/redlock/locks"
)

// withNotify runs test in fake time: a holds the lock job as x, and board has what b and others are told.
func withNotify(t *testing.T,
	test func(t *testing.T, a, b *client, board *board)) {
	withLocks(t, locks.Options{}, func(t *testing.T, session func() *client) {
		a, b := session(), session()
		a.Do("LOCK job TOKEN x PX 20000")
		test(t, a, b, b.Board)
		a.User.Waits.Close(commands.ErrEnded)
		b.User.Waits.Close(commands.ErrEnded)
		synctest.Wait()
	})
}

// expect checks a reply.
func expect(t *testing.T, s *client, command, want string) {
	t.Helper()
	if got := readable(s.Do(command)); got != want {
		t.Errorf("%s: %s, want %s", command, got, want)
	}
}

// told waits until nothing more happens at once, and checks the messages so far.
func told(t *testing.T, board *board, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := board.Take(); !slices.Equal(got, want) {
		t.Errorf("messages %q, want %q", got, want)
	}
}

// free checks that nobody holds the lock job nor waits for it.
func free(t *testing.T, s *client) {
	t.Helper()
	time.Sleep(50 * time.Millisecond)
	info := readable(s.Do("LOCKCTL INFO job"))
	if !strings.HasPrefix(info, "*[state free ") || !strings.Contains(info, " waiters 0 ") {
		t.Errorf("not free: %s", info)
	}
}

// A LOCK with NOTIFY is answered at once, and then there is exactly one message. R9
func TestNotify(t *testing.T) {
	withNotify(t, func(t *testing.T, a, b *client, board *board) {
		expect(t, b, "LOCK other TOKEN y PX 9000 WAIT 1000 NOTIFY news", "*[y F 9000 1]")
		told(t, board)
		expect(t, b, "LOCK job TOKEN y PX 9000 WAIT 1000 NOTIFY news", "QUEUED")
		expect(t, b, "UNLOCK other y", "1") // it goes on
		time.Sleep(2 * time.Second)
		told(t, board, "news: timeout job")
		expect(t, b, "LOCK job TOKEN y PX 9000 WAIT 1000 NOTIFY news META of-b ID 7", "QUEUED")
		expect(t, a, "UNLOCK job x", "1")
		told(t, board, "news: granted job F 9000 1")
		expect(t, b, "LOCKCTL CHECK job y", "*[9000 F 1]")
		expect(t, b, "UNLOCK job", "1")
		expect(t, a, "LOCK job TOKEN x", "*[x F 30000 1]")
		expect(t, b, "LOCK job TOKEN y TRIES 3 EVERY 100 NOTIFY news", "QUEUED")
		time.Sleep(time.Second)
		told(t, board, "news: timeout job")
		expect(t, b, "LOCK job TOKEN y TRIES 3 EVERY 100 NOTIFY news", "QUEUED")
		expect(t, a, "UNLOCK job x", "1")
		time.Sleep(time.Second)
		told(t, board, "news: granted job F 30000 1")
	})
}

// Readers, upgrades and re-entry wait with NOTIFY like any other.
func TestNotifyOfReaders(t *testing.T) {
	withNotify(t, func(t *testing.T, a, b *client, board *board) {
		expect(t, b, "RLOCK job TOKEN y WAIT 9000 NOTIFY news", "QUEUED")
		expect(t, b, "RLOCK job TOKEN z WAIT 9000 NOTIFY news", "QUEUED")
		expect(t, a, "UNLOCK job x", "1")
		time.Sleep(5 * time.Second)
		if got := board.Take(); len(got) != 2 {
			t.Errorf("messages %q", got)
		}
		expect(t, b, "WLOCK job TOKEN y WAIT 9000 REENTRANT NOTIFY news", "QUEUED")
		expect(t, b, "WLOCK job TOKEN z WAIT 1000 NOTIFY news",
			"-DEADLOCK another reader waits already to become the writer, and each would wait for the "+
				"other: release the shared hold, then lock again")
		expect(t, b, "UNLOCK job z", "1")
		time.Sleep(2 * time.Second) // no messages come here: the proxy asks each second
		told(t, board, "news: granted job F 30000 2")
	})
}

// A grant that nobody was told of is given back; one that somebody may have been told of stays.
func TestNotifyUnheard(t *testing.T) {
	for _, keep := range []string{"", " KEEPALIVE"} {
		withNotify(t, func(t *testing.T, a, b *client, board *board) {
			board.Answer = func(string, string) (commands.Heard, error) { return commands.Unheard, nil }
			b.Do("HELLO 3")
			expect(t, b, "LOCK job TOKEN y PX 3000 WAIT 1000 NOTIFY news"+keep, "QUEUED")
			expect(t, a, "UNLOCK job x", "1")
			told(t, board, "news: granted job F 3000 1")
			free(t, a)
			time.Sleep(9 * time.Second)
			told(t, board)
			if b.Pushed != "" {
				t.Errorf("pushed %q", b.Pushed)
			}
		})
		withNotify(t, func(t *testing.T, a, b *client, board *board) {
			board.Answer = func(string, string) (commands.Heard, error) {
				return commands.InDoubt, errors.New("lost")
			}
			b.Do("HELLO 3")
			expect(t, b, "LOCK job TOKEN y PX 3000 WAIT 1000 NOTIFY news"+keep, "QUEUED")
			expect(t, a, "UNLOCK job x", "1")
			told(t, board, "news: granted job F 3000 1")
			time.Sleep(2900 * time.Millisecond)
			expect(t, a, "LOCK job TOKEN x", "$nil")
			time.Sleep(6 * time.Second)
			told(t, board)
			free(t, a)
			if keep != "" && readable(b.Pushed) != ">[lock-lost job F max]" {
				t.Errorf("pushed %q", b.Pushed)
			}
		})
	}
}

// A message that was certainly not published is tried again, until too little of the lease is left.
func TestNotifyUnsent(t *testing.T) {
	withNotify(t, func(t *testing.T, a, b *client, board *board) {
		fails := 4
		board.Answer = func(string, string) (commands.Heard, error) {
			if fails--; fails >= 0 {
				return commands.Unsent, errors.New("away")
			}
			return commands.Told, nil
		}
		expect(t, b, "LOCK job TOKEN y PX 3000 WAIT 1000 NOTIFY news", "QUEUED")
		expect(t, a, "UNLOCK job x", "1")
		time.Sleep(time.Second) // 50 + 100 + 200 + 400 ms
		told(t, board, "news: granted job F 2250 1")
		expect(t, b, "UNLOCK job y", "1")

		expect(t, a, "LOCK job TOKEN x", "*[x F 30000 1]")
		fails = 5
		expect(t, b, "LOCK job TOKEN y PX 1000 WAIT 1000 NOTIFY news", "QUEUED")
		expect(t, a, "UNLOCK job x", "1")
		time.Sleep(700 * time.Millisecond)
		told(t, board, "news: error job TRYAGAIN the lock was granted and given back, for the message could "+
			"not be published in time: ask again; "+redlock.ErrMayHold.Error())
		free(t, a)
	})
}

// UNLOCK of the token that waits, and the end of the connection, end the wait.
func TestNotifyEnds(t *testing.T) {
	const ask = "LOCK job TOKEN y PX 3000 WAIT 1000 NOTIFY news"
	withNotify(t, func(t *testing.T, a, b *client, board *board) {
		expect(t, b, ask, "QUEUED")
		expect(t, b, ask, "-ERR this token waits for job on this connection already: its message is "+
			"still to come")
		expect(t, b, "UNLOCK job other", "$nil")
		expect(t, b, "UNLOCK job y FENCE 5", "$nil")
		told(t, board)
		expect(t, b, "UNLOCK job y", "$nil")
		told(t, board, "news: error job UNBLOCKED UNLOCK has ended this wait: nothing is held")
		expect(t, b, ask, "QUEUED")
		b.User.Waits.Close(commands.ErrEnded)
		told(t, board, "news: error job UNBLOCKED the connection that asked for the lock has ended, or "+
			"begun anew: nothing is held")
		expect(t, b, ask, "QUEUED")
		expect(t, b, "RESET", "RESET")
		synctest.Wait()
		if got := board.Take(); len(got) != 1 || b.User.Waits.Memory() != 0 {
			t.Errorf("messages %q, %d bytes", got, b.User.Waits.Memory())
		}
		expect(t, a, "UNLOCK job x", "1")
		free(t, a)
	})
}

// A grant that races with the end of the connection is taken back, and the message says so.
func TestNotifyGrantedTooLate(t *testing.T) {
	withNotify(t, func(t *testing.T, a, b *client, board *board) {
		board.Answer = func(_, message string) (commands.Heard, error) {
			if strings.HasPrefix(message, "granted ") {
				b.User.Waits.Close(commands.ErrEnded)
				return commands.Unsent, errors.New("away")
			}
			return commands.Told, nil
		}
		expect(t, b, "LOCK job TOKEN y PX 9000 WAIT 1000 NOTIFY news", "QUEUED")
		expect(t, a, "UNLOCK job x", "1")
		time.Sleep(time.Second)
		if got := board.Take(); len(got) != 1 || !strings.HasPrefix(got[0], "news: error job UNBLOCKED ") {
			t.Errorf("messages %q", got)
		}
		free(t, a)
	})
}

// A connection has as many waits as are left for all others.
func TestNotifyRoom(t *testing.T) {
	withNotify(t, func(t *testing.T, a, b *client, board *board) {
		for i := range mostWaits / 2 {
			expect(t, b, fmt.Sprintf("LOCK job TOKEN %d WAIT 1000 NOTIFY news", i), "QUEUED")
		}
		expect(t, b, "LOCK job TOKEN y WAIT 1000 NOTIFY news", "-QUEUEFULL this connection waits with "+
			"NOTIFY 3 times, and only 3 waits are left for all others: wait for some to end, or raise "+
			"lock-max-notify")
		expect(t, a, "LOCK job TOKEN y WAIT 1000 NOTIFY news", "QUEUED")
		if !b.User.Waits.Any() || b.User.Waits.Memory() < 3*12<<10 {
			t.Errorf("%v, %d bytes", b.User.Waits.Any(), b.User.Waits.Memory())
		}
		time.Sleep(2 * time.Second)
		told(t, board, "news: timeout job", "news: timeout job", "news: timeout job", "news: timeout job")
		for i := range mostWaits / 2 {
			expect(t, b, fmt.Sprintf("LOCK job TOKEN %d WAIT 1000 NOTIFY news", i), "QUEUED")
		}
	})
}

// Who is told that the token has the lock, or that it has not, may ask again at once.
func TestNotifyAgain(t *testing.T) {
	const ask = "LOCK job TOKEN y PX 9000 WAIT 1000 NOTIFY news"
	withNotify(t, func(t *testing.T, a, b *client, board *board) {
		var again []string
		var mu sync.Mutex // b asks from here and from there
		board.Answer = func(string, string) (commands.Heard, error) {
			mu.Lock()
			defer mu.Unlock()
			if again = append(again, readable(b.Do(ask))); len(again) == 1 {
				return commands.Told, nil
			}
			return commands.Unheard, nil
		}
		mu.Lock()
		expect(t, b, ask, "QUEUED")
		mu.Unlock()
		time.Sleep(1500 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if len(again) != 1 || again[0] != "QUEUED" {
			t.Errorf("behind the time-out: %q", again)
		}
		mu.Unlock()
		expect(t, a, "UNLOCK job x", "1")
		time.Sleep(500 * time.Millisecond)
		mu.Lock()
		if len(again) != 2 || again[1] != "*[y F 9000 1]" {
			t.Errorf("behind the grant: %q", again)
		}
	})
}

// A name with blanks could not be told from the other words of a message.
func TestNotifyBlanks(t *testing.T) {
	withNotify(t, func(t *testing.T, a, b *client, board *board) {
		got := b.Args("LOCK", "a job", "TOKEN", "y", "WAIT", "5", "NOTIFY", "news")
		if !strings.HasPrefix(got, "-ERR NOTIFY is not for names with blanks") {
			t.Error(got)
		}
		got = b.Args("LOCK", "{j}\x00\xff", "TOKEN", "y", "WAIT", "5", "NOTIFY", "my news")
		if got[0] != '*' {
			t.Error(got)
		}
	})
}

// NOTIFY needs the right to publish on its channel.
func TestNotifyRights(t *testing.T) {
	withNotify(t, func(t *testing.T, a, b *client, board *board) {
		for line, want := range map[string]string{
			"LOCK job TOKEN NOTIFY WAIT 5":             "SET lock:{job} * GET",
			"LOCK job notify c TOKEN t WAIT 5":         "SET lock:{job} * GET, PUBLISH c *",
			"RLOCK job META NOTIFY NOTIFY c TOKEN t":   "SET lock:{job} * GET, PUBLISH c *",
			"WLOCK job PX NOTIFY EX 5 TOKEN t NOTIFY":  "SET lock:{job} * GET",
			"LOCK job TOKEN t WAIT 5 NOTIFY NOTIFY PX": "SET lock:{job} * GET, PUBLISH NOTIFY *",
		} {
			args := wordsOf(line)
			cmd, _ := b.Table.Resolve(args)
			var got []string
			rights, _ := cmd.Rights(args)
			for _, r := range rights {
				got = append(got, strings.Join(strings.Fields(fmt.Sprintf("%s", r)), " "))
			}
			if all := strings.NewReplacer("[", "", "]", "").Replace(strings.Join(got, ", ")); all != want {
				t.Errorf("%s: %s, want %s", line, all, want)
			}
		}
	})
}
