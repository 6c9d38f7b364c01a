package lockevent

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

var sample = Event{
	Time: time.UnixMicro(1795480701520918), Kind: Lost, Lock: "job\r\n\xff", Mode: "write", Token: "36dd2925",
	Fence: 1795480701520918, Client: Client{Name: "worker", Addr: "10.0.0.7:4123", User: "default"},
	Proxy: "vzvblq7dhe44hl3y", Reason: "expired", Count: 3,
}

// What is published is what is read, but for names that are too long.
func TestMessage(t *testing.T) {
	long := sample
	long.Lock = strings.Repeat("x", 2*MostLock)
	b := long.Append(sample.Append(nil))
	long.Lock = long.Lock[:MostLock]
	if got := Read(b); !reflect.DeepEqual(got, []Event{sample, long}) {
		t.Errorf("%+v", got)
	}
}

// What is no event is left out, and what follows it is read.
func TestStrangeMessages(t *testing.T) {
	good := string(sample.Append(nil))
	for text, want := range map[string]int{
		"": 0, "hello": 0, "*1\r\n$1\r\na\r\n": 0, ":1\r\n" + good: 1, good + "*12\r\n$4\r\nlost\r\n": 1,
		strings.Replace(good, "lost", "loss", 1):                                        0,
		strings.Replace(good, "1795480701520918", "179548070152091x", 1):                0,
		strings.Replace(good, "*12", "*13", 1) + "$3\r\nnew\r\n":                        1,
		strings.Replace(good, "$8\r\n36dd2925", "$400\r\n"+strings.Repeat("z", 400), 1): 0,
	} {
		if got := Read([]byte(text)); len(got) != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(sample.Append(nil))
	f.Fuzz(func(t *testing.T, message []byte) {
		for _, e := range Read(message) {
			if again := Read(e.Append(nil)); len(again) != 1 || !reflect.DeepEqual(again[0], e) {
				t.Errorf("%+v, read again: %+v", e, again)
			}
		}
	})
}
