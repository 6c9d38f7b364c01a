package settings

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for args, want := range map[string]string{ // "": nothing is wrong
		"":                               "neither --upstream nor --dev is given",
		"--dev":                          "",
		"--upstream 10.0.0.1:6379":       "",
		"--dev --upstream 10.0.0.1:6379": "dev and upstream exclude each other",
		"--dev --listen=":                "listen: needs an address",
		"--dev --listen 0.0.0.0:6380": "listen 0.0.0.0:6380: reaches beyond this machine, " +
			"and no password is set",
		"--dev --listen :6380":                                 "listen :6380: reaches beyond",
		"--dev --listen 127.0.0.1:0,h:1":                       "listen h:1: reaches beyond",
		"--dev --listen localhost:6380":                        "",
		"--dev --listen [::1]:6380,/tmp/s":                     "",
		"--dev --listen :6380 --requirepass x":                 "",
		"--dev --listen :6380 --protected-mode no":             "",
		"--upstream a:1 --listen :6380 --client-auth upstream": "",
		"--upstream a:1 --client-auth upstream --requirepass x": "client-auth upstream and requirepass " +
			"exclude each other",
		"--dev --listen :6380 --requirepass-file x":    "",
		"--dev --requirepass x --requirepass-file y":   "requirepass and requirepass-file exclude each other",
		"--dev --requirepass x --requirepass-file=":    "",
		"--dev --admin 0.0.0.0:1 --requirepass-file x": "admin 0.0.0.0:1: reaches beyond",
		"--upstream a:1 --client-auth upstream --requirepass-file x": "client-auth upstream and " +
			"requirepass-file exclude each other",
		"--dev --client-auth upstream":                          "client-auth upstream: needs an upstream",
		"--dev --admin 0.0.0.0:6390":                            "admin 0.0.0.0:6390: reaches beyond",
		"--dev --admin 0.0.0.0:6390 --requirepass x":            "admin 0.0.0.0:6390: reaches beyond",
		"--dev --admin :6390 --protected-mode no":               "admin :6390: reaches beyond",
		"--dev --admin :6390 --admin-protected-mode no":         "",
		"--dev --admin :6390 --admin-password x":                "",
		"--dev --admin :6390 --admin-password-file x":           "",
		"--dev --admin :1 --admin-tls-cert a --admin-tls-key b": "admin :1: reaches beyond",
		"--dev --admin-tls-cert a":                              "admin-tls-cert and admin-tls-key: only one",
		"--dev --admin-tls-ca a":                                "admin-tls-ca a: needs admin-tls-cert",
		"--dev --admin-password x --admin-password-file y":      "admin-password and admin-password-file",
		"--dev --admin-actions":                                 "admin-actions yes: anybody",
		"--dev --admin-actions --admin-password x":              "",
		"--dev --admin off --admin-password x":                  "admin-password: has no effect",
		"--dev --tls-cert a":                                    "tls-cert and tls-key: only one of them",
		"--dev --tls-ca a":                                      "tls-ca a: needs tls-cert and tls-key",
		"--upstream a:1 --upstream-tls-ca a": "upstream-tls-ca a: has no effect " +
			"without upstream-tls yes",
		"--upstream a:1 --upstream-tls --upstream-tls-key a": "upstream-tls-cert and upstream-tls-key: " +
			"only one",
		"--dev --cluster-mode --cluster-announce a:1,[::1]:2": "",
		"--dev --cluster-announce a:1": "cluster-announce a:1: has no effect " +
			"without cluster-mode yes",
		"--dev --cluster-mode --cluster-announce :1": "cluster-announce :1: clients cannot " +
			"connect there",
		"--dev --cluster-mode --cluster-announce a:0": "cluster-announce a:0: clients cannot " +
			"connect there",
		// R22
		"--dev --lock-lease 2h --lock-max-lease 1h": "lock-lease 2h: must not be longer than " +
			"lock-max-lease, which is 1h",
		// What is waited for in a grant must be far below the lease. R32
		"--dev --lock-sync 1 --lock-sync-timeout 16s": "lock-sync-timeout 16s: " +
			"must be at most half of lock-lease, which is 30s",
		"--dev --lock-sync 1 --lock-sync-timeout 15s": "",
		"--dev --redlock a:1,b:1,c:1 --lock-lease 2m": "lock-lease 2m: must not be " +
			"longer than redlock-max-lease, which is 1m",
		"--dev --redlock a:1,b:1,c:1 --lock-lease 2m --redlock-max-lease 2m": "",
		"--dev --lock-sync-timeout 16s":                                      "",
		"--dev --lock-failover-grace 10s": "lock-failover-grace 10s: " +
			"must not be shorter than lock-lease, which is 30s",
		"--dev --lock-failover-grace 30s": "",
		// A setting that breaks the rules of RedLock is refused. R32
		"--dev --redlock a:1,b:1,c:1":                                    "",
		"--dev --redlock a:1,b:1,c:1,d:1,e:1 --redlock-prefix pay:,due:": "",
		"--dev --redlock a:1":                                            "redlock: 1 of at least 3 masters",
		"--dev --redlock a:1,b:1":                                        "redlock: 2 of at least 3 masters",
		"--dev --redlock a:1,b:1,c:1,d:1": "redlock: names 4 masters, and " +
			"needs an odd number: with 3",
		"--dev --redlock-prefix pay:": "redlock-prefix pay:: has no " +
			"effect without redlock",
		"--dev --redlock a:1,b:1,c:1 --redlock-node-timeout 7501ms": "redlock-node-timeout 7.501s: " +
			"must be at most a quarter of lock-lease, which is 30s",
		"--dev --redlock a:1,b:1,c:1 --redlock-node-timeout 7500ms": "",
		"--dev --redlock a:1,b:1,c:1 --lock-sync 1":                 "lock-sync 1: is not for redlock",
		"--dev --redlock-node-timeout 1m":                           "",
	} {
		v, err := load(strings.Fields(args), nil)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		err = check(v)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", args, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s\n got: %v\nwant: %s...", args, err, want)
		}
	}
}
