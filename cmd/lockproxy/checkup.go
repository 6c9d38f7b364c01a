package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockproxy/cmd/lockproxy/checkup"
	"lockproxy/cmd/lockproxy/files"
	"lockproxy/cmd/lockproxy/limits"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/terminal"
)

// checkCommand is lockproxy check.
func checkCommand() *cobra.Command {
	asJSON := false
	c := tool.TakesSettings(tool.Command(&cobra.Command{
		Use: "check [--flag value]...",
		Short: "Says whether a proxy with these settings could do its work, and what to do where it " +
			"could not",
		Long: tool.Long(`
Takes the flags, variables and config file that the proxy would be started with, and asks all nodes
that they name and that these know. A line is a fact: ok, warn or fail, what it is about, and behind
"Remedy:" what to do. It looks at the settings, each node (whether it answers and how fast, its role,
version and certificate), slots and replicas, what the proxy's user may do there, what evicts or forgets
locks, and clocks. Nothing is changed. No proxy needs to run, and one that runs is not disturbed. To ask
one that runs, use lockproxy ready.`,
			tool.Exit{Code: tool.ExitOK, Meaning: "no fact says fail"},
			tool.Exit{Code: tool.ExitNo, Meaning: "one of them does"}),
		Example: `  lockproxy check --config /etc/lockproxy.conf
        before the proxy is started with that file
  lockproxy check --upstream 10.0.0.1:6379
        what a proxy would find there
  lockproxy check --json | jq '.facts[] | select(.level != "ok")'
        in a script: what is not as it should be`,
	}, 0, 0, func(c *tool.Invocation) int {
		return runCheck(c, checkup.NewReport(c.Stdout, asJSON, terminal.Colors(c.Stdout, c.Environ)))
	}))
	tool.Yes(c.Flags(), &asJSON, "json", "one JSON object: ok, and the facts: level, about, node, text, "+
		"remedy")
	return c
}

// runCheck finds the facts out, in the order of how soon they are known.
func runCheck(c *tool.Invocation, r *checkup.Report) int {
	v, err := checkSettings(c, r.Tell)
	// With settings that are wrong there is nothing to ask: their mistakes are all the facts.
	if err == nil {
		checkFiles(v, r.Tell)
		if v.Dev {
			r.Tell(checkup.Fact{About: "upstream", Text: "is in the memory of the proxy (dev): nothing " +
				"survives it"})
		}
		checkup.Run(context.Background(), v, r.Tell)
	}
	if err := r.End(); err != nil {
		return c.Fail(tool.ExitSoftware, err)
	}
	var wrong *settings.Mistakes
	switch {
	// What was typed wrongly is a wrong use of check itself. A wrong config file is an answer: the proxy
	// could not start with it.
	case errors.As(err, &wrong) && wrong.Typed:
		return tool.ExitUsage
	// A warning leaves the exit code 0: a script that guards a start must not fail for it.
	case !r.OK:
		return tool.ExitNo
	}
	return tool.ExitOK
}

// checkSettings reads the settings as the proxy would, with the files that they name.
func checkSettings(c *tool.Invocation, tell func(checkup.Fact)) (*settings.Values, error) {
	v, certs, passwords, err := loadAll(settingsFrom(c.Settings, c.Environ))
	// One fact for each mistake, so that all are mended in one go.
	for _, one := range settings.Apart(err) {
		text, remedy := one.Error(), "change that setting; lockproxy --help lists them"
		switch {
		case errors.Is(one, settings.ErrNoUpstream): // it explains itself on many lines
			text, remedy = "neither --upstream nor --dev is given", "say where the data lives"
		case strings.Contains(text, "did you mean") || strings.Contains(text, "lockproxy --help"):
			remedy = "correct the name"
		}
		tell(checkup.Fact{Level: checkup.Fail, About: "settings", Text: text, Remedy: remedy})
	}
	if err != nil {
		return nil, err
	}
	tell(checkup.Fact{About: "settings", Text: "are right"})
	checkCerts(v, certs, tell)
	return checkValues(*v, certs, passwords), nil
}

// checkValues are the settings with what only the program has, as checkup asks for them.
func checkValues(v settings.Values, certs files.Certs, passwords files.Passwords) *settings.Values {
	// It was read without an error a moment ago, by loadAll.
	if d, err := files.ReadDetours(&v); err == nil {
		v.Upstream.Detour = d.Of
	}
	// The log of a proxy would tell the same as the facts, but in words for others.
	v.Upstream.TLS, v.Upstream.Log = certs.Upstream.Source(), slog.New(slog.DiscardHandler)
	v.Upstream.Logins, v.Upstream.SentinelLogins = passwords.Upstream.Source(), passwords.Sentinel.Source()
	v.Masters.Logins = passwords.Redlock.Source()
	return &v
}

// checkCerts tells how long the proxy's own certificates are good for.
func checkCerts(v *settings.Values, c files.Certs, tell func(checkup.Fact)) {
	for _, side := range []struct {
		name string
		pem  settings.PEM
		read *files.TLS
	}{{"tls", v.TLS, c.Clients}, {"upstream-tls", v.UpstreamTLS.PEM, c.Upstream},
		{"admin-tls", v.Admin.TLS, c.Admin}} {
		if side.pem.Cert != "" {
			// tls.X509KeyPair has parsed it: the pair was read without an error.
			leaf := side.read.Config().Certificates[0].Leaf
			tell(checkup.Certificate(side.name+"-cert "+side.pem.Cert, leaf, time.Now()))
		}
		if cert := onlyCert(side.pem.CA); cert != nil {
			tell(checkup.Certificate(side.name+"-ca "+side.pem.CA, cert, time.Now()))
		}
	}
}

// onlyCert is the certificate in a file, nil if there is none, or more than one: then it is a bundle, some of
// which may well have expired.
func onlyCert(file string) *x509.Certificate {
	text, _ := os.ReadFile(file)
	block, rest := pem.Decode(text)
	if next, _ := pem.Decode(rest); block == nil || next != nil {
		return nil
	}
	cert, _ := x509.ParseCertificate(block.Bytes)
	return cert
}

// checkFiles tells whether the limit of open files is enough for the settings.
func checkFiles(v *settings.Values, tell func(checkup.Fact)) {
	limit := limits.OpenFiles()
	// It logs nothing here: check tells the same as a fact. The very v comes back if nothing is lowered.
	fitted := limits.FitClients(v, limit, slog.New(slog.DiscardHandler))
	if fitted == v {
		tell(checkup.Fact{About: "files", Text: fmt.Sprintf("the limit of open files here, %d, is enough "+
			"for maxclients %d", limit, v.Proxy.MaxClients)})
		return
	}
	var lower []string
	for _, s := range []struct {
		name      string
		is, would int
	}{{"maxclients", v.Proxy.MaxClients, fitted.Proxy.MaxClients},
		{"upstream-own-connections", v.Proxy.MaxOwn, fitted.Proxy.MaxOwn}} {
		if s.would < s.is {
			lower = append(lower, fmt.Sprintf("%s from %d to %d", s.name, s.is, s.would))
		}
	}
	tell(checkup.Fact{Level: checkup.Warn, About: "files", Text: fmt.Sprintf(
		"the limit of open files here is %d: the proxy would lower %s", limit, strings.Join(lower, ", and ")),
		Remedy: "raise it (ulimit -n, LimitNOFILE), or set these lower"})
}
