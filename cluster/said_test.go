package cluster

import (
	"errors"
	"strings"
	"testing"
)

// What nodes say is repeated as far as it is of use, and does not grow on its way through proxies.
func TestSaid(t *testing.T) {
	for text, want := range map[string]string{
		"NOAUTH who": "NOAUTH who",
		"LOADING lockproxy has not found its upstream yet: LOADING lockproxy has not": string(errNoRedis),
		strings.Repeat("x", 1<<20): strings.Repeat("x", mostSaying) + "...",
	} {
		err := Said(text)
		if err.Error() != want {
			t.Errorf("%.100s: %v", text, err)
		}
		if _, final := errors.AsType[Refusal](err); final != (want == string(errNoRedis)) {
			t.Errorf("%.100s: final: %v", text, final)
		}
	}
}
