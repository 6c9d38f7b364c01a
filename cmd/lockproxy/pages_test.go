package main

import (
	"strings"
	"testing"

	"lockproxy/cmd/lockproxy/tool"
)

func TestSuggest(t *testing.T) {
	p := wholeProgram()
	for typed, want := range map[string]string{
		"ver":                         "version",
		"--upstream-tls-c":            "--upstream-tls-ca --upstream-tls-cert",
		"--dev --log-f":               "--log-format",
		"--client-auth |":             "proxy upstream",
		"--client-auth=p":             "--client-auth=proxy",
		"--dev=|":                     "--dev=yes --dev=no",
		"--config |":                  ":files",
		"ready --within 1s --admin-h": "--admin-hosts",
		"lock --ca":                   "--cacert",
		"lock --cacert |":             ":files",
		"lock --wait |":               "",
		"lock |":                      "--",
		"lock --once --onc":           "--once",
		"lock job -- |":               ":command",
		"lock job -- --wa":            ":command",
		"lock --tls-ca":               "",
		"help ver":                    "version",
		"completion |":                "bash zsh fish",
		"locks |":                     "info break",
		"nothing --log-f":             "--log-format",
	} {
		var all []string
		for _, s := range p.Suggest(strings.Split(strings.ReplaceAll(typed, "|", ""), " ")) {
			all = append(all, s.Word)
		}
		if strings.Join(all, " ") != want {
			t.Errorf("%s: %q, not %s", typed, all, want)
		}
	}
}

// help is --help; completion prints a script for each shell it knows, and says which they are.
func TestPages(t *testing.T) {
	for words, want := range map[string]string{
		"help":            "0 lockproxy [--setting value]...",
		"help lock":       "0 lockproxy lock [--flag value]... NAME",
		"lock --help":     "0 lockproxy lock [--flag value]... NAME",
		"help lokc":       "64 lockproxy help: lokc: there is no such subcommand; did you mean lock?",
		"help nothing":    "64 lockproxy help: nothing: there is no such subcommand; there are lock, ready,",
		"completion bash": "0 # bash completion",
		"completion sh":   "64 lockproxy completion: which shell: bash, zsh, fish?",
		"man":             "0 .TH LOCKPROXY 1",
	} {
		var stdout, stderr strings.Builder
		code := realMain(strings.Fields(words), nil, nil, &stdout, &stderr)
		number, text, _ := strings.Cut(want, " ")
		said := stdout.String() + stderr.String()
		if !strings.HasPrefix(said, text) || (code == tool.ExitOK) != (number == "0") {
			t.Errorf("%s: %d %.200s", words, code, said)
		}
	}
}
