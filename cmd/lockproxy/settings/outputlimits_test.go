package settings

import (
	"math"
	"strings"
	"testing"
	"time"

	"lockproxy/proxy/memory"
)

func TestOutputLimits(t *testing.T) {
	l := Defaults().Proxy.Output
	in := outputLimits(&l)
	for _, tt := range []struct{ set, want string }{
		{"", "normal 1073741824 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"},
		{"pubsub 1mb 0 0", "normal 1073741824 0 0 slave 268435456 67108864 60 pubsub 1048576 0 0"},
		{"normal 1mb 2mb 60 replica 3mb 4mb 70 PUBSUB 5mb 6mb 80",
			"normal 1048576 2097152 60 slave 3145728 4194304 70 pubsub 5242880 6291456 80"},
		{"normal 0 0 0", "normal 0 0 0 slave 3145728 4194304 70 pubsub 5242880 6291456 80"},
		{"2gb", "normal 2147483648 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"},
	} {
		if tt.set != "" {
			if err := in.Set(tt.set); err != nil {
				t.Errorf("%s: %v", tt.set, err)
			}
		}
		if got := in.String(); got != tt.want {
			t.Errorf("%s: %s", tt.set, got)
		}
	}
	before := l
	for set, want := range map[string]string{
		"":                          "Wrong number of arguments",
		"wrong number":              "Wrong number of arguments",
		"pubsub 1mb 0":              "Wrong number of arguments",
		"other 1mb 1mb 60":          "Invalid client class",
		"master 1mb 1mb 60":         "Invalid client class",
		"normal 10mbs 1mb 60":       "Error in hard",
		"pubsub 1mb 1mbs 60":        "Error in hard",
		"pubsub 1mb 1mb 60s":        "Error in hard",
		"pubsub 1mb 1mb -1":         "Error in hard",
		"pubsub 1mb 1mb 9223372037": "Error in hard", // seconds that no time.Duration holds
		"10":                        "must be between",
		"normal 1mb 0 0 x 1 1 1":    "Invalid client class",
	} {
		if err := in.Set(set); err == nil || !strings.HasPrefix(err.Error(), want) || l != before {
			t.Errorf("%q: %v", set, err)
		}
	}
	l = memory.Limits{Normal: memory.Limit{Hard: 1, Soft: 5, SoftFor: time.Second}}
	if err := in.Set("normal 0 5 60 pubsub 0 0 0"); err != nil {
		t.Error(err)
	}
	if l.Normal != (memory.Limit{Hard: math.MaxInt, Soft: 5, SoftFor: time.Minute}) ||
		l.PubSub != (memory.Limit{Hard: math.MaxInt}) {
		t.Errorf("%+v", l)
	}
}
