package limits

import (
	"testing"
)

func TestRoundQuota(t *testing.T) {
	for quota, want := range map[float64]int{0.5: 1, 1.2: 2, 1e6: 0} {
		got := roundQuota(quota)
		if want == 0 || got < want { // never more than the machine has
			want = roundQuota(1e9)
		}
		if got != want {
			t.Errorf("roundQuota(%v) = %d, want %d", quota, got, want)
		}
	}
}
