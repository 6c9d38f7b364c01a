package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"lockproxy/cmd/lockproxy/kind"
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
func memoryShare(at *MemoryShare) value {
	return kind.Of(at, "SIZE", "0, a size from 1mb on, or 1% to 100% of the memory", readShare,
		MemoryShare.String)
}

func readShare(s string) (share MemoryShare, err error) {
	if digits, ok := strings.CutSuffix(s, "%"); ok {
		share.Percent, err = strconv.Atoi(digits)
		switch {
		case err != nil || share.Percent < 0:
			err = errors.New("must be a memory or percent value")
		case share.Percent > 100:
			err = configError("percentage argument must be less or equal to 100")
		}
		return share, err
	}
	share.Bytes, err = parseSize(s)
	switch {
	case err != nil:
		err = errors.New("must be a memory or percent value")
	case share.Bytes != 0 && share.Bytes < leastMemory:
		err = fmt.Errorf("must be 0, or at least %d", leastMemory)
	}
	return share, err
}

// String is m as it is written.
func (m MemoryShare) String() string {
	if m.Percent > 0 {
		return strconv.Itoa(m.Percent) + "%"
	}
	return strconv.FormatInt(m.Bytes, 10)
}
