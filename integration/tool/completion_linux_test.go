package tool

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// inPath makes lockproxy a word that shells find, and returns the line that puts it into PATH.
func inPath(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(rig.Binary(t), filepath.Join(dir, "lockproxy")); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("PATH=%s:$PATH", dir)
}

// bash and zsh complete what is typed at a terminal, as a person sees it.
func TestCompletionAtATerminal(t *testing.T) {
	t.Parallel()
	for name, shell := range map[string][]string{
		"bash": {"bash", "--norc", "--noprofile", "-i"},
		"zsh":  {"zsh", "-f", "-i"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openScreen(t, "", shell...)
			s.types(t, "PS1='$ '; "+inPath(t)+"; cd ../..; echo in$((1+1))\n", "in2")
			if name == "zsh" {
				s.types(t, "autoload -U compinit && compinit -u -D; setopt no_auto_menu; echo zsh$((1+1))\n",
					"zsh2")
			}
			s.types(t, "source <(lockproxy completion "+name+"); echo sourced$((1+1))\n", "sourced2")
			for _, test := range []struct{ typed, want string }{
				{"lockproxy compl", "lockproxy completion"},
				{"lockproxy lock --perm", "--permits"},
				{"lockproxy --replica-reads replica", "--replica-reads replica-preferred"},
				{"lockproxy --replica-reads=replica", "--replica-reads=replica-preferred"},
				{"lockproxy --config READM", "--config README.md"},
				{"lockproxy --config=READM", "--config=README.md"},
				{"lockproxy check --lock-le", "--lock-lease"},
				{"lockproxy lock job -- realpat", "-- realpath"},
				{"lockproxy lock job -- cat READM", "cat README.md"},
			} {
				s.types(t, test.typed+"\t", test.want)
				s.types(t, "\x15echo next$((1+1))\n", "next2") // ^U: a new line
			}
		})
	}
}

// fish says what it would complete.
func TestCompletionOfFish(t *testing.T) {
	t.Parallel()
	path := inPath(t)
	for typed, want := range map[string]string{
		"lockproxy compl":                   "completion",
		"lockproxy lock --perm":             "--permits",
		"lockproxy --replica-reads replica": "replica-preferred",
		"lockproxy --replica-reads=replica": "--replica-reads=replica-preferred",
		"lockproxy --config READM":          "README.md",
		"lockproxy --config=READM":          "--config=README.md",
		"lockproxy lock job -- realpat":     "realpath",
		"lockproxy lock job -- cat READM":   "README.md",
	} {
		cmd := exec.Command("fish", "--no-config", "-c", "lockproxy completion fish | source; complete -C "+
			fmt.Sprintf("%q", typed))
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), os.ExpandEnv(path))
		text, err := cmd.CombinedOutput()
		var all []string
		for line := range strings.Lines(string(text)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			all = append(all, word)
		}
		if err != nil || !slices.Equal(all, []string{want}) {
			t.Errorf("%s: %v %q, not %s", typed, err, text, want)
		}
	}
}

// groff and mandoc have nothing to say of the manual page, which names every flag of every subcommand.
func TestManualPage(t *testing.T) {
	t.Parallel()
	code, page := run(t, "", "man")
	if code != 0 {
		t.Fatalf("code %d: %s", code, page)
	}
	file := rig.WriteFile(t, "lockproxy.1", page)
	text, err := exec.Command("groff", "-ww", "-man", "-z", file).CombinedOutput()
	if err != nil || len(text) > 0 {
		t.Errorf("groff: %v %s", err, text)
	}
	text, _ = exec.Command("mandoc", "-T", "lint", file).CombinedOutput()
	for line := range strings.Lines(string(text)) {
		// A page that is made when it is read has no date.
		if !strings.Contains(line, "missing date") {
			t.Errorf("%s", line)
		}
	}
	read, err := exec.Command("mandoc", "-T", "ascii", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"LOCKPROXY LOCK", "LOCKPROXY COMPLETION", "--lock-lease", "--upstream",
		"--atleast"} {
		plain := strings.NewReplacer("_\b", "").Replace(string(read))
		for i := len(plain) - 2; i > 0; i-- { // bold is a letter over itself
			if plain[i] == '\b' {
				plain = plain[:i] + plain[i+2:]
			}
		}
		if !strings.Contains(plain, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
}
