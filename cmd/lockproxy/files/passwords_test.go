package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockproxy/cluster"
	"lockproxy/cmd/lockproxy/settings"
)

// What a file or a command may give, and what is said of what it may not. Nothing of it is ever shown.
func TestPasswordsRead(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		text string
		want cluster.Login // zero: it is refused
	}{
		{"sesame", cluster.Login{User: "shop", Password: "sesame"}},
		{"sesame\n", cluster.Login{User: "shop", Password: "sesame"}},
		{"sesame\r\n", cluster.Login{User: "shop", Password: "sesame"}},
		{" sesame \n", cluster.Login{User: "shop", Password: " sesame "}},
		{"other\nsesame\n", cluster.Login{User: "other", Password: "sesame"}},
		{"other\r\nsesame\r\n", cluster.Login{User: "other", Password: "sesame"}},
		{"", cluster.Login{}},
		{"\n\n", cluster.Login{}},
		{"{\n\"password\": \"sesame\"\n}\n", cluster.Login{}},
	} {
		write(c.text)
		c.want.Renewed = true
		for _, from := range []settings.PasswordFrom{{File: file}, {Command: "cat '" + file + "'"}} {
			w := &password{setting: "upstream-password-x", user: "shop", from: from}
			got, err := w.readLogin(t.Context())
			switch {
			case c.want.Password == "" && err == nil:
				t.Errorf("%q: %v", c.text, got)
			case c.want.Password == "" && (strings.Contains(err.Error(), "sesame") ||
				!strings.HasPrefix(err.Error(), "upstream-password-x has to give one line")):
				t.Errorf("%q: %v", c.text, err)
			case c.want.Password != "" && (err != nil || got != c.want):
				t.Errorf("%q: %v %v", c.text, got, err)
			}
		}
	}
	for text, want := range map[string]string{
		"sesame\r\n": "sesame", "sesame": "sesame", "": "", "\n": "", "shop\nsesame\n": "",
	} {
		write(text)
		w := &password{setting: "requirepass-file", alone: true, from: settings.PasswordFrom{File: file}}
		got, err := w.readLogin(t.Context())
		if got.Password != want || got.User != "" || (err == nil) != (want != "") || err != nil &&
			err.Error() != "requirepass-file has to give one line, the password: it gives none, or more" {
			t.Errorf("%q without a user: %v %v", text, got, err)
		}
	}
	for _, c := range []struct {
		from settings.PasswordFrom
		want string
	}{
		{settings.PasswordFrom{File: file + "2"}, "secret2: no such file or directory"},
		{settings.PasswordFrom{Command: "no-such-program"}, "no-such-program"},
		{settings.PasswordFrom{Command: " "}, "is no command"},
		{settings.PasswordFrom{Command: "sh -c 'echo why >&2; exit 3'"}, "sh: exit status 3: why"},
		{settings.PasswordFrom{Command: "sh -c 'echo sesame; echo sesame >&2; exit 3'"}, "sh: exit status 3"},
		{settings.PasswordFrom{Command: "sh -c 'echo user; echo sesame; echo sesame >&2; exit 3'"},
			"sh: exit status 3"},
	} {
		w := &password{setting: "upstream-password-x", from: c.from}
		_, err := w.readLogin(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%+v: %v", c.from, err)
		}
	}
}
