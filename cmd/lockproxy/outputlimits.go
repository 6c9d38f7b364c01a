package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// OutputLimit bounds what may wait for a client that does not read: it is closed at
// Hard bytes at once, and at Soft bytes after Seconds. 0 bytes: no limit.
type OutputLimit struct {
	Hard, Soft int64
	Seconds    int
}

// OutputLimits are the limits of the kinds of clients that Redis tells apart.
type OutputLimits struct{ Normal, Replica, PubSub OutputLimit }

// outputLimits are written as in redis.conf: a class, two sizes and seconds, for each class that
// is to be changed. A size alone is the hard limit of normal clients, and Redis's defaults for
// the others.
type outputLimits struct{ at *OutputLimits }

func (o outputLimits) Set(s string) error {
	words := strings.Fields(s)
	if len(words) == 1 {
		var n int64
		if err := (size{&n, mb, 1 << 40}).Set(words[0]); err != nil {
			return err
		}
		*o.at = OutputLimits{
			Normal:  OutputLimit{Hard: n},
			Replica: OutputLimit{256 * mb, 64 * mb, 60},
			PubSub:  OutputLimit{32 * mb, 8 * mb, 60},
		}
		return nil
	}
	if len(words) == 0 || len(words)%4 != 0 {
		return own("Wrong number of arguments in buffer limit configuration.")
	}
	next := *o.at
	for ; len(words) > 0; words = words[4:] {
		class := next.class(words[0])
		if class == nil {
			return own("Invalid client class specified in buffer limit configuration.")
		}
		hard, err1 := parseSize(words[1])
		soft, err2 := parseSize(words[2])
		seconds, err3 := strconv.Atoi(words[3])
		if errors.Join(err1, err2, err3) != nil || seconds < 0 {
			return own("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
		}
		*class = OutputLimit{hard, soft, seconds}
	}
	*o.at = next
	return nil
}

func (o *OutputLimits) class(name string) *OutputLimit {
	switch strings.ToLower(name) {
	case "normal":
		return &o.Normal
	case "slave", "replica":
		return &o.Replica
	case "pubsub":
		return &o.PubSub
	}
	return nil
}

func (o outputLimits) String() string {
	text := func(name string, l OutputLimit) string {
		return fmt.Sprintf("%s %d %d %d", name, l.Hard, l.Soft, l.Seconds)
	}
	return text("normal", o.at.Normal) + " " + text("slave", o.at.Replica) + " " + text("pubsub", o.at.PubSub)
}

func (o outputLimits) Allowed() string {
	return "1mb to 1024gb, or as in redis.conf: pubsub 32mb 8mb 60"
}

// own is an error of CONFIG SET that does not go on behind "argument".
type own string

func (e own) Error() string { return string(e) }
