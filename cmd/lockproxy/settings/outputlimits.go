package settings

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"lockproxy/cmd/lockproxy/kind"
	"lockproxy/proxy/memory"
)

// noLimit stands in the data plane for the 0 of redis.conf. There 0 would be a limit that everything exceeds.
const noLimit = math.MaxInt

// longestSoft is how many seconds fit into a time.Duration.
const longestSoft = int64(math.MaxInt64 / time.Second)

// outputLimits are written as in redis.conf: a class, two sizes and seconds, for each class that is to be
// changed. A single size is the hard limit of normal clients; the others then have Redis's defaults.
func outputLimits(at *memory.Limits) value {
	in := kind.Of(at, "LIMITS", "1mb to 1024gb, or as in redis.conf: pubsub 32mb 8mb 60",
		func(s string) (memory.Limits, error) { return readLimits(*at, s) }, showLimits)
	in.Brief = func() string { return shortLimits(*at) }
	return in
}

// readLimits reads limits in the place of next: classes that are not named keep what they have.
func readLimits(next memory.Limits, s string) (memory.Limits, error) {
	words := strings.Fields(s)
	if len(words) == 1 {
		next = memory.DefaultLimits()
		err := size(&next.Normal.Hard, mb, 1<<40).Set(words[0])
		return next, err
	}
	if len(words) == 0 || len(words)%4 != 0 {
		return next, configError("Wrong number of arguments in buffer limit configuration.")
	}
	for ; len(words) > 0; words = words[4:] {
		class := classOf(&next, words[0])
		if class == nil {
			return next, configError("Invalid client class specified in buffer limit configuration.")
		}
		hard, err1 := parseSize(words[1])
		soft, err2 := parseSize(words[2])
		seconds, err3 := strconv.Atoi(words[3])
		if errors.Join(err1, err2, err3) != nil || seconds < 0 || int64(seconds) > longestSoft {
			return next, configError("Error in hard, soft or soft_seconds setting in buffer limit " +
				"configuration.")
		}
		if hard == 0 {
			hard = noLimit
		}
		*class = memory.Limit{Hard: int(hard), Soft: int(soft),
			SoftFor: time.Duration(seconds) * time.Second}
	}
	return next, nil
}

// classOf is the limit of a class, by its name in redis.conf; nil: there is no such class.
func classOf(o *memory.Limits, name string) *memory.Limit {
	switch strings.ToLower(name) {
	case "normal":
		return &o.Normal
	// Redis's name for the class before 5.0, which CONFIG GET still shows.
	case "slave", "replica":
		return &o.Replica
	case "pubsub":
		return &o.PubSub
	}
	return nil
}

func showLimits(o memory.Limits) string {
	text := func(name string, l memory.Limit) string {
		if l.Hard == noLimit {
			l.Hard = 0
		}
		return fmt.Sprintf("%s %d %d %d", name, l.Hard, l.Soft, l.SoftFor/time.Second)
	}
	return text("normal", o.Normal) + " " + text("slave", o.Replica) + " " + text("pubsub", o.PubSub)
}

// shortLimits is the hard limit of normal clients, if the others have their defaults.
func shortLimits(o memory.Limits) string {
	others := o
	others.Normal = memory.Limit{Hard: memory.DefaultLimits().Normal.Hard}
	if others != memory.DefaultLimits() {
		return showLimits(o)
	}
	return formatSize(int64(o.Normal.Hard))
}

// configError is an error of CONFIG SET that does not go on behind "argument".
type configError string

func (e configError) Error() string { return string(e) }
