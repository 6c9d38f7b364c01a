package limits

import (
	"fmt"
	"log/slog"
	"math"
	"runtime"

	"go.uber.org/automaxprocs/maxprocs"
)

// SetProcs sets GOMAXPROCS from the CPU quota of the container, rounded up and at
// least 2, which is what the Go runtime itself takes. undo sets it back.
func SetProcs(log *slog.Logger) (undo func()) {
	undo, err := maxprocs.Set(
		maxprocs.Min(min(2, runtime.NumCPU())),
		maxprocs.RoundQuotaFunc(roundQuota),
		maxprocs.Logger(func(format string, args ...any) {
			log.Debug("cpu quota", "result", fmt.Sprintf(format, args...))
		}),
	)
	// then it stays what the runtime has found out
	if err != nil {
		log.Warn("the CPU quota could not be read", "err", err)
	}
	return undo
}

// roundQuota rounds up, but not beyond the processors there are.
func roundQuota(quota float64) int { return min(int(math.Ceil(quota)), runtime.NumCPU()) }
