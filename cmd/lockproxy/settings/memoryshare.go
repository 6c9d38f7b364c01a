package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// leastMemory is the least that clients may be given. Less would close every client that sends anything.
const leastMemory = 1 << 20

// MemoryShare is how much memory all clients together may take. The zero MemoryShare is no limit. A
// percentage is of what limits.Memory finds when the options are made.
type MemoryShare struct {
	Percent int   // of what there is; 0: Bytes
	Bytes   int64 // 0: any number
}

// Of is the share in bytes, of so many.
func (m MemoryShare) Of(there int64) int64 {
	if m.Percent == 0 {
		return m.Bytes
	}
	return max(there/100*int64(m.Percent), leastMemory)
}

// memoryShare is written as maxmemory-clients in redis.conf: a size, or a part such as 5%.
type memoryShare struct{ at *MemoryShare }

func (m memoryShare) Set(s string) error {
	if digits, ok := strings.CutSuffix(s, "%"); ok {
		n, err := strconv.Atoi(digits)
		switch {
		case err != nil || n < 0:
			return errors.New("must be a memory or percent value")
		case n > 100:
			return configError("percentage argument must be less or equal to 100")
		}
		*m.at = MemoryShare{Percent: n}
		return nil
	}
	n, err := parseSize(s)
	switch {
	case err != nil:
		return errors.New("must be a memory or percent value")
	case n != 0 && n < leastMemory:
		return fmt.Errorf("must be 0, or at least %d", leastMemory)
	}
	*m.at = MemoryShare{Bytes: n}
	return nil
}

func (m memoryShare) String() string {
	if m.at.Percent > 0 {
		return strconv.Itoa(m.at.Percent) + "%"
	}
	return strconv.FormatInt(m.at.Bytes, 10)
}

func (m memoryShare) Type() string { return "SIZE" }

func (m memoryShare) Allowed() string { return "0, a size from 1mb on, or 1% to 100% of the memory" }
