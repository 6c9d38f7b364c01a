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

// workplace is a directory with a file to complete, and with lockproxy and a command that no machine has. It
// has to be in PATH.
func workplace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"lockproxy", "zealous-command"} {
		if err := os.Symlink(rig.Binary(t), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "READTHIS.md"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
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
			s.types(t, "PS1='$ '; cd '"+workplace(t)+"'; PATH=$PWD:$PATH; echo in$((1+1))\n", "in2")
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
				{"lockproxy --config READT", "--config READTHIS.md"},
				{"lockproxy --config=READT", "--config=READTHIS.md"},
				{"lockproxy check --lock-le", "--lock-lease"},
				{"lockproxy lock job -- zealou", "-- zealous-command"},
				{"lockproxy lock job -- cat READT", "cat READTHIS.md"},
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
	dir := workplace(t)
	for typed, want := range map[string]string{
		"lockproxy compl":                   "completion",
		"lockproxy lock --perm":             "--permits",
		"lockproxy --replica-reads replica": "replica-preferred",
		"lockproxy --replica-reads=replica": "--replica-reads=replica-preferred",
		"lockproxy --config READT":          "READTHIS.md",
		"lockproxy --config=READT":          "--config=READTHIS.md",
		"lockproxy lock job -- zealou":      "zealous-command",
		"lockproxy lock job -- cat READT":   "READTHIS.md",
	} {
		cmd := exec.Command("fish", "--no-config", "-c", "lockproxy completion fish | source; complete -C "+
			fmt.Sprintf("%q", typed))
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + dir + ":" + os.Getenv("PATH")}
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
	code, page := told(t, "", "man")
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
		// A page that is made when it is read has no date, and nobody reads its source.
		if !strings.Contains(line, "missing date") && !strings.Contains(line, "longer than 80 bytes") {
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
