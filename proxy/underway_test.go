package proxy

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// What is published behind a subscription that a client has sent goes behind it, from another loop too, and
// what does not concern it does not wait.
func TestPublishBehindSubscribe(t *testing.T) {
	many, names := manyTopics("ch")
	for subscribe, published := range map[string]string{
		"SUBSCRIBE x y":     "PUBLISH y",
		"PSUBSCRIBE a* y*":  "PUBLISH yy",
		"SSUBSCRIBE y":      "SPUBLISH y",
		"SUBSCRIBE " + many: "PUBLISH " + names[len(names)-1],
	} {
		t.Run(published, func(t *testing.T) {
			inStageBubble(t, Options{Loops: 2}, func(st *stage) {
				a, b, pub := st.connect(), st.connect(), st.connect()
				st.shut()
				a.send(subscribe)
				go a.r.WriteTo(io.Discard)
				synctest.Wait()
				pub.send(published+" 1", "GET k")
				if len(subscribe) < 100 {
					b.send("PUBLISH z 2", "SPUBLISH z 2")
					b.expect(":0\r\n:0\r\n")
				}
				synctest.Wait()
				if n := pub.r.Buffered(); n > 0 {
					st.Errorf("%d bytes came before the subscription stood", n)
				}
				st.open()
				pub.expect(":1\r\n$-1\r\n")
			})
		})
	}
}

// A subscription that no node confirms holds up what is published for a second.
func TestPublishDoesNotWaitForEver(t *testing.T) {
	inStageBubble(t, Options{}, func(st *stage) {
		a, pub := st.connect(), st.connect()
		st.shut()
		a.send("SUBSCRIBE x")
		go a.r.WriteTo(io.Discard)
		synctest.Wait()
		began := time.Now()
		pub.send("PUBLISH x 1")
		pub.expect(":0\r\n")
		if took := time.Since(began); took != time.Second {
			st.Errorf("it took %v", took)
		}
		gone := st.connect()
		gone.send("PUBLISH x 2")
		synctest.Wait()
		gone.Close()
	})
}

// No more of it is left than there was.
func TestUnderwayEnds(t *testing.T) {
	inStageBubble(t, Options{}, func(st *stage) {
		for i := range 10 {
			a, b := st.connect(), st.connect()
			a.send(fmt.Sprintf("SUBSCRIBE x y x%d", i), fmt.Sprintf("PSUBSCRIBE x%d", i))
			b.send("SUBSCRIBE x")
			if i%2 == 0 {
				a.Close()
			}
			b.expect(confirmation("subscribe", "x", 1))
			b.Close()
			a.Close()
		}
		synctest.Wait()
		if left := st.server.shared.Underway.Len(); left != 0 {
			st.Errorf("%d are left", left)
		}
	})
}
