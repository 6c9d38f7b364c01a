package settings

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func newTestConfig(t *testing.T, args string) *Config {
	t.Helper()
	v, err := load(strings.Fields(args), nil)
	if err != nil {
		t.Fatal(err)
	}
	return NewConfig(v)
}

func set(c *Config, name, value string) error { return c.SetAll([][2]string{{name, value}}) }

func TestConfigGet(t *testing.T) {
	c := newTestConfig(t, "--dev --requirepass mine --upstream-password theirs --lock-lease 90s")
	for glob, want := range map[string][][2]string{
		"lock-lease": {{"lock-lease", "1m30s"}},
		"TIMEOUT":    {{"TIMEOUT", "0"}},
		"proto-max-*": {{"proto-max-bulk-len", "536870912"},
			{"proto-max-multibulk-len", "1048576"}},
		"d[ae]v":                        {{"dev", "yes"}},
		"requirepass":                   {{"requirepass", "mine"}},
		"upstream-password":             {{"upstream-password", "(hidden)"}},
		"sentinel-password":             {{"sentinel-password", ""}},
		"lock-max-w???":                 {{"lock-max-wait", "10m"}},
		"maxmemory":                     nil,
		"[":                             nil,
		"loc[k]-leas[^x]":               {{"lock-lease", "1m30s"}}, // as Redis matches
		strings.Repeat("*l", 1_000_000): nil,
		"tcp-keepalive":                 {{"tcp-keepalive", "300"}},
		"listen":                        {{"listen", "127.0.0.1:6380"}},
	} {
		if got := c.Get(glob); !reflect.DeepEqual(got, want) {
			t.Errorf("CONFIG GET %s: %v, want %v", glob, got, want)
		}
	}
	if got := len(c.Get("*")); got != len(settings) {
		t.Errorf("CONFIG GET *: %d settings of %d", got, len(settings))
	}
}

// The error texts were taken from Redis 7.0.15, as far as it has such a setting.
func TestConfigSetErrors(t *testing.T) {
	c := newTestConfig(t, "--upstream a:1 --listen :6380 --requirepass secret")
	before := c.Values()
	const failed = "ERR CONFIG SET failed (possibly related to argument "
	for _, test := range []struct {
		pairs [][2]string
		want  string
	}{
		{[][2]string{{"Foo", "1"}}, "ERR Unknown option or number of arguments for CONFIG SET - 'Foo'"},
		{[][2]string{{"timeout", "1"}, {"foo", "2"}},
			"ERR Unknown option or number of arguments for CONFIG SET - 'foo'"},
		{[][2]string{{"listen", "127.0.0.1:1"}}, failed + "'listen') - can't set immutable config"},
		{[][2]string{{"timeout", "abc"}}, failed +
			"'timeout') - argument couldn't be parsed into an integer"},
		{[][2]string{{"TIMEOUT", "-1"}}, failed +
			"'timeout') - argument must be between 0 and 2147483647 inclusive"},
		{[][2]string{{"maxclients", "0"}}, failed +
			"'maxclients') - argument must be between 1 and 1000000 inclusive"},
		{[][2]string{{"log-level", "x"}}, failed +
			"'log-level') - argument(s) must be one of the following: debug, info, warn, error"},
		{[][2]string{{"timeout", "1"}, {"timeout", "2"}}, failed + "'timeout') - duplicate parameter"},
		{[][2]string{{"drain-timeout", "30"}}, failed +
			"'drain-timeout') - argument needs a unit: 30s or 30ms"},
		{[][2]string{{"maxclients", "5"}, {"drain-timeout", "x"}}, failed +
			"'drain-timeout') - argument must be a duration, such as 30s, 500ms or 10m"},
	} {
		if err := c.SetAll(test.pairs); err == nil || err.Error() != test.want {
			t.Errorf("CONFIG SET %v\n got: %v\nwant: %s", test.pairs, err, test.want)
		}
	}
	if err := set(c, "requirepass", ""); err == nil ||
		!strings.Contains(err.Error(), "reaches beyond this machine") {
		t.Errorf("the password of an open door could be taken away: %v", err)
	}
	if c.Values() != before {
		t.Error("a refused change changed something")
	}
}

func TestConfigSet(t *testing.T) {
	c := newTestConfig(t, "--dev")
	var seen []time.Duration
	c.OnChange(func(v *Values) { seen = append(seen, v.DrainTimeout) })
	if err := set(c, "Drain-Timeout", "5s"); err != nil {
		t.Fatal(err)
	}
	if err := c.SetAll([][2]string{{"timeout", "5"}, {"drain-timeout", "48m"}}); err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{10 * time.Second, 5 * time.Second, 48 * time.Minute}; !reflect.DeepEqual(seen,
		want) {
		t.Errorf("seen %v, want %v", seen, want)
	}
}

// What the sources say is taken over as far as it can be, or not at all, and what CONFIG SET has changed is
// over.
func TestConfigReread(t *testing.T) {
	const start = "--dev --admin off --log-level warn --requirepass a"
	c := newTestConfig(t, start)
	if err := set(c, "maxclients", "7"); err != nil {
		t.Fatal(err)
	}
	watched := 0
	c.OnChange(func(*Values) { watched++ })
	reread := func(args string) (changed, restart string, err error) {
		t.Helper()
		v, err := load(strings.Fields(args), nil)
		if err != nil {
			t.Fatal(err)
		}
		list := func(all []*Setting) string {
			var names []string
			for _, s := range all {
				names = append(names, s.Name+"="+s.Logged(c.Values()))
			}
			return strings.Join(names, " ")
		}
		ch, re, err := c.Reread(v)
		return list(ch), list(re), err
	}
	changed, restart, err := reread("--dev --admin 127.0.0.1:1 --upstream-password x --log-level error")
	if err != nil || changed != "requirepass=(not shown) upstream-password=(not shown) maxclients=10000 "+
		"log-level=error" || restart != "admin=" || c.Values().Admin.Addr != "" || watched != 2 {
		t.Errorf("changed %q, restart %q, %v, watched %d times", changed, restart, err, watched)
	}
	if changed, restart, err = reread(start); err != nil || restart != "" || !strings.Contains(changed,
		"log-level=warn") {
		t.Errorf("changed %q, restart %q, %v", changed, restart, err)
	}
	// What can change does not go with what cannot.
	c = newTestConfig(t, "--dev --listen :1 --requirepass a")
	before := c.Values()
	if _, restart, err = reread("--dev --log-level error"); err == nil || restart != "listen=:1" ||
		!strings.Contains(err.Error(), "reaches beyond this machine") || c.Values() != before {
		t.Errorf("restart %q, %v", restart, err)
	}
}

// A password that moves into a file, or out of it, does so with a restart: until then it is neither gone nor
// another one.
func TestConfigRereadMovesNoPassword(t *testing.T) {
	for _, test := range []struct{ start, then string }{
		{"--dev --requirepass a --admin-password b", "--dev --requirepass-file x --admin-password-file y"},
		{"--dev --requirepass-file x --admin-password-file y", "--dev --requirepass a --admin-password b"},
		{"--dev --upstream-password a", "--dev --upstream-password-command x"},
	} {
		c := newTestConfig(t, test.start)
		secrets := func(v *Values) [3]string {
			return [3]string{v.Proxy.Password, v.Admin.Password, v.Upstream.Password}
		}
		before := secrets(c.Values())
		then, err := load(strings.Fields(test.then), nil)
		if err != nil {
			t.Fatal(err)
		}
		changed, restart, err := c.Reread(then)
		if now := c.Values(); err != nil || len(changed) > 0 || len(restart) == 0 ||
			secrets(now) != before {
			t.Errorf("%s: changed %d, restart %d: %v", test.then, len(changed), len(restart), err)
		}
	}
}

// The password of requirepass-file is changed in the file, and shown to nobody.
func TestConfigOfAPasswordInAFile(t *testing.T) {
	c := newTestConfig(t, "--dev --requirepass-file x")
	want := [][2]string{{"requirepass", hidden}}
	if got := c.Get("requirepass"); !reflect.DeepEqual(got, want) {
		t.Errorf("CONFIG GET requirepass: %v", got)
	}
	for _, value := range []string{"", "another"} {
		if err := set(c, "requirepass", value); err == nil || !strings.HasSuffix(err.Error(),
			"'requirepass') - the password is that of requirepass-file: write it there") {
			t.Errorf("CONFIG SET requirepass %q: %v", value, err)
		}
	}
	if err := set(c, "requirepass", hidden); err != nil || c.Values().Proxy.Password != "" {
		t.Errorf("what was read cannot be set again: %v", err)
	}
}

// CONFIG SET gives no more than the process may have, as the start.
func TestConfigSetFits(t *testing.T) {
	c := newTestConfig(t, "--dev")
	c.Fit(func(v *Values) *Values {
		fitted := *v
		fitted.Proxy.MaxClients = min(v.Proxy.MaxClients, 100)
		return &fitted
	})
	if err := set(c, "maxclients", "200"); err != nil || c.Values().Proxy.MaxClients != 100 {
		t.Errorf("%d clients: %v", c.Values().Proxy.MaxClients, err)
	}
}

// A client cannot set the passwords of the proxy itself.
func TestConfigSetIsNotForTheFile(t *testing.T) {
	err := set(newTestConfig(t, "--dev"), "upstream-password", "x")
	if err == nil || !strings.HasSuffix(err.Error(), "can't set immutable config") {
		t.Error(err)
	}
}

// No client opens a proxy that others can reach.
func TestConfigSetOpensNothing(t *testing.T) {
	for args, exposed := range map[string]bool{
		"--dev --requirepass secret": false,
		"--dev --requirepass secret --listen localhost:0,/tmp/s,127.0.0.1:6380":     false,
		"--dev --requirepass secret --listen :6380":                                 true,
		"--dev --requirepass secret --listen :6380 --protected-mode no":             true,
		"--dev --requirepass secret --listen 127.0.0.1:0,/tmp/s,10.0.0.1:6380":      true,
		"--upstream a:1 --client-auth upstream --listen :6380 --protected-mode yes": true,
	} {
		c := newTestConfig(t, args)
		for name, value := range map[string]string{"protected-mode": "no", "requirepass": ""} {
			before := c.Values()
			err := set(c, name, value)
			opens := name == "protected-mode" && before.ProtectedMode || name == "requirepass" &&
				before.Proxy.Password != ""
			if want := exposed && opens; (err != nil) != want {
				t.Errorf("%s: CONFIG SET %s %q: %v", args, name, value, err)
			} else if want && !strings.Contains(err.Error(), "beyond this machine") {
				t.Errorf("%s: CONFIG SET %s %q: %v", args, name, value, err)
			}
		}
	}
	c := newTestConfig(t, "--dev --requirepass secret --listen :6380")
	if err := set(c, "requirepass", "another"); err != nil {
		t.Error(err)
	}
}

// Changed has which settings differ from their defaults, and no secret.
func TestChangedSettings(t *testing.T) {
	v := Defaults()
	if all := v.Changed(); len(all) > 0 {
		t.Errorf("of the defaults differ %v", all)
	}
	for i := range settings {
		if s := &settings[i]; s.Secret {
			if err := s.in(v).Set("sesame"); err != nil {
				t.Fatal(err)
			}
		}
	}
	v.Proxy.LockNames = 5
	text := fmt.Sprint(v.Changed())
	for _, want := range []string{"{lock-stats-names 5 1000}", "{requirepass (hidden) }"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(text, "sesame") {
		t.Errorf("a secret is shown: %s", text)
	}
}
