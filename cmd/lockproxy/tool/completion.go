package tool

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The scripts ask the program itself what may stand where the user is typing (Suggest), so they know nothing
// that could grow old.
//
//go:embed completion.bash completion.zsh completion.fish
var scripts embed.FS

// shells are those for which there is a script.
var shells = []string{"bash", "zsh", "fish"}

// Completion is the subcommand that prints the script of a shell; the scripts use it to ask what to suggest.
func Completion(program func() *Program) *Command {
	return &Command{
		Name:     "completion",
		Summary:  "Prints the script by which a shell completes subcommands, flags and settings",
		Operands: "bash | zsh | fish",
		Least:    1, Most: -1,
		Words: shells,
		About: `The script asks this program what may come next, whichever version is installed. To have it
in every shell, put the line of the example into ~/.bashrc, into ~/.zshrc behind compinit, or into
~/.config/fish/config.fish.`,
		Examples: []Example{
			{"source <(lockproxy completion bash)", "in bash, and zsh in place of bash for that"},
			{"lockproxy completion fish | source", "in fish"},
			{"lockproxy completion bash > /etc/bash_completion.d/lockproxy", "for all users of bash"},
		},
		Exits: []Exit{{ExitOK, "printed"}},
		Setup: func(*Flags) func(*Call) int {
			return func(c *Call) int {
				switch shell := c.Operands[0]; {
				case shell == "suggest" && len(c.Operands) > 1:
					for _, s := range program().Suggest(c.Operands[1:]) {
						fmt.Fprintf(c.Stdout, "%s\t%s\n", s.Word, s.What)
					}
					return ExitOK
				case len(c.Operands) > 1 || !slices.Contains(shells, shell):
					return c.Misused(errors.New("which shell: " + strings.Join(shells, ", ") + "?"))
				default:
					script, _ := scripts.ReadFile("completion." + shell)
					c.Stdout.Write(script)
					return ExitOK
				}
			}
		},
	}
}
