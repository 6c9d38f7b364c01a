package commands_test

import (
	"slices"
	"strings"
	"testing"

	"lockproxy/commands"
	"lockproxy/commands/lock"
	"lockproxy/internal/resp"
)

// word is one argument of a sample.
type word struct {
	text   string
	secret bool
}

// samples are calls that use args, of a reply of COMMAND DOCS, each alternative in one of them.
func samples(args resp.Value) [][]word {
	all := [][]word{nil}
	for _, arg := range args.Elems {
		var longer [][]word
		for _, tail := range samplesOf(arg) {
			for _, head := range all {
				longer = append(longer, slices.Concat(head, tail))
			}
		}
		all = longer
	}
	return all[:min(len(all), 500)]
}

func samplesOf(arg resp.Value) (all [][]word) {
	name := resp.Field(arg, "name").Text()
	subs := resp.Field(arg, "arguments")
	switch resp.Field(arg, "type").Text() {
	case "oneof":
		for _, sub := range subs.Elems {
			all = append(all, samplesOf(sub)...)
		}
	case "block":
		all = samples(subs)
	case "pure-token":
		all = [][]word{nil}
	default:
		all = [][]word{{{"x", name == "password" || name == "token"}}}
	}
	if token := resp.Field(arg, "token").Text(); token != "" {
		for i := range all {
			all[i] = append([]word{{text: token}}, all[i]...)
		}
	}
	return all
}

// TestSecretArguments walks all that COMMAND DOCS tells of, Redis's commands and the verbs: each argument
// that it calls a password or a token is one for Secrets too.
func TestSecretArguments(t *testing.T) {
	table := redis7(t, lock.Verbs(lock.Lockers{})...)
	found := make(map[string]bool)
	check := func(name string, docs resp.Value) {
		for _, sample := range samples(resp.Field(docs, "arguments")) {
			var args [][]byte
			for _, part := range strings.Split(name, "|") {
				args = append(args, []byte(part))
			}
			secrets := make([]bool, len(args))
			for _, w := range sample {
				args, secrets = append(args, []byte(w.text)), append(secrets, w.secret)
			}
			c, _ := table.Resolve(args)
			hidden := c.Secrets(args)
			for i, secret := range secrets {
				if secret && (hidden == nil || !hidden[i]) {
					t.Errorf("%q: argument %d can be seen", args, i)
				}
				found[name] = found[name] || secret
			}
		}
	}
	eachDocs(t, testdata(t, "docs-7.0.15.resp"), check)
	f := sessionOver(t, table, saying("*0\r\n"))
	for _, c := range table.Verbs() {
		eachDocs(t, []byte(f.Do("COMMAND DOCS "+c.Name)), check)
	}
	names := "auth hello migrate lock rlock wlock semlock unlock renew lockctl|check"
	for _, name := range strings.Fields(names) {
		if !found[name] {
			t.Errorf("%s has no secret argument: the test sees nothing", name)
		}
	}
}

// eachDocs calls check for each command and subcommand of a reply to COMMAND DOCS.
func eachDocs(t *testing.T, reply []byte, check func(name string, docs resp.Value)) {
	t.Helper()
	v, _, err := resp.Parse(reply)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(v.Elems); i += 2 {
		check(v.Elems[i].Text(), v.Elems[i+1])
		subs := resp.Field(v.Elems[i+1], "subcommands")
		for j := 0; j+1 < len(subs.Elems); j += 2 {
			check(subs.Elems[j].Text(), subs.Elems[j+1])
		}
	}
}

// TestSecretsOfWords covers what COMMAND DOCS cannot tell: what a word in front makes of an argument.
func TestSecretsOfWords(t *testing.T) {
	table := redis7(t, lock.Verbs(lock.Lockers{})...)
	for line, want := range map[string]string{
		"CONFIG SET maxmemory 1 requirepass p":  "CONFIG SET maxmemory 1 requirepass (redacted)",
		"CONFIG SET MasterAuth p masteruser u":  "CONFIG SET MasterAuth (redacted) masteruser (redacted)",
		"CONFIG SET tls-key-file-pass p save x": "CONFIG SET tls-key-file-pass (redacted) save x",
		"CONFIG SET upstream-password":          "CONFIG SET upstream-password",
		"ACL SETUSER u on >p":                   "ACL SETUSER (redacted) (redacted) (redacted)",
		"AUTH u p":                              "AUTH (redacted) (redacted)",
		"LOCK job TOKEN t PX oops":              "LOCK job TOKEN (redacted) PX oops",
		"LOCK job TOKEN":                        "LOCK job TOKEN",
		"LOCK job PX 5 t":                       "LOCK job PX 5 (redacted)",
		"LOCKCTL CHECK job t":                   "LOCKCTL CHECK job (redacted)",
		"MIGRATE h 1 k 0 5 AUTH p":              "MIGRATE h 1 k 0 5 AUTH (redacted)",
		"HELLO 3 AUTH u p SETNAME AUTH":         "HELLO 3 AUTH (redacted) (redacted) SETNAME AUTH",
		"GET AUTH":                              "GET AUTH",
	} {
		args := wordsOf(line)
		c, _ := table.Resolve(args)
		secret := c.Secrets(args)
		var got []string
		for i, arg := range args {
			if secret != nil && secret[i] {
				arg = commands.Redacted
			}
			got = append(got, string(arg))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s is shown as %q, want %q", line, strings.Join(got, " "), want)
		}
	}
}
