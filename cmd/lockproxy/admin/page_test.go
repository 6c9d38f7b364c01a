package admin

import (
	"strings"
	"testing"

	"lockproxy/cmd/lockproxy/settings"
)

// The page names locks and clients: without a password it is for this machine, while clients need none
// either.
func TestAdminPageIsHidden(t *testing.T) {
	for args, reason := range map[string]string{
		"--dev":                                                                  "",
		"--dev --requirepass x":                                                  "clients need a password",
		"--dev --requirepass-file x":                                             "clients need a password",
		"--upstream a:1 --client-auth upstream":                                  "clients need a password",
		"--dev --requirepass x --admin-password y":                               "",
		"--dev --admin :6390 --admin-protected-mode no":                          "beyond this machine",
		"--dev --admin :6390 --admin-password y":                                 "",
		"--dev --admin :6390 --admin-password-file y":                            "",
		"--dev --admin :1 --admin-tls-cert a --admin-tls-key b --admin-tls-ca c": "",
	} {
		v, err := settings.Sources{Args: strings.Fields(args)}.Load()
		if err != nil {
			t.Fatal(err)
		}
		o := optionsOf(fixed{}, v)
		inside := onlyPages(o.Values, o.newPage(), o.inside())
		shown := reason == ""
		for path, want := range map[string]bool{"/": shown, "/page.js": shown, "/metrics": true} {
			code, body := fetch(inside, path)
			if (code == 200) != want || !want && !strings.Contains(body, reason) {
				t.Errorf("%s: %s: %d %.200s", args, path, code, body)
			}
		}
		if !shown {
			if code, _ := fetch(inside, "/live"); code != 403 {
				t.Errorf("%s: /live: %d", args, code)
			}
		}
	}
}
