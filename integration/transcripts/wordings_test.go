package transcripts

import (
	"testing"

	"lockproxy/integration/rig"
)

// A reply has the wording of the server that gives it.
func TestWordings(t *testing.T) {
	tr, err := parse("a> X\na< old\nsince redis 7.2: newer\nsince valkey 9: newest\n and more\n" +
		"before redis 6.2: oldest\nbefore valkey 8.1: no Redis")
	if err != nil {
		t.Fatal(err)
	}
	const built = "redis_build_id:1\r\n"
	for info, want := range map[string]string{
		"redis_version:6.0.0\r\n":                                     "old", // in memory
		built + "redis_version:6.0.16\r\n":                            "oldest",
		built + "redis_version:7.0.15\r\n":                            "old",
		built + "redis_version:7.2.0\r\n":                             "newer",
		built + "redis_version:10.0.0\r\n":                            "newer",
		built + "redis_version:7.2.4\r\nvalkey_version:7.2.5\r\n":     "no Redis",
		built + "redis_version:7.2.4\r\nvalkey_version:8.1.1\r\n":     "newer",
		built + "redis_version:7.2.4\r\nvalkey_version:9.0.0-rc1\r\n": "newest and more",
	} {
		if got := tr.steps[1].by(rig.ReleaseOf(info)).text; got != want {
			t.Errorf("%q: %s", info, got)
		}
	}
	for _, text := range []string{"since redis 7.2: x", "a> X\nsince redis 7.2: x"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q is no mistake", text)
		}
	}
}
