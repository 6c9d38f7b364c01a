package tool

import (
	"embed"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockproxy/cmd/lockproxy/kind"
)

// The scripts ask the program itself (cobra's __complete), so they know nothing that could grow old. Those of
// cobra would need bash-completion, and complete no command behind --.
//
//go:embed completion.bash completion.zsh completion.fish
var scripts embed.FS

// shells are those for which there is a script.
var shells = []string{"bash", "zsh", "fish"}

// Completion is the subcommand that prints the script of a shell.
func Completion() *cobra.Command {
	return Command(&cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Prints the script by which a shell completes subcommands, flags and settings",
		ValidArgs: shells,
		Long: Long(`
The script asks this program what may come next, whichever version is installed. To have it
in every shell, put the line of the example into ~/.bashrc, into ~/.zshrc behind compinit, or into
~/.config/fish/config.fish.`, Exit{ExitOK, "printed"}),
		Example: `  source <(lockproxy completion bash)     in bash, and zsh in place of bash for that
  lockproxy completion fish | source      in fish
  lockproxy completion bash > /etc/bash_completion.d/lockproxy
        for all users of bash`,
	}, 1, 1, func(c *Invocation) int {
		if !slices.Contains(shells, c.Operands[0]) {
			return c.Misused(errors.New("which shell: " + strings.Join(shells, ", ") + "?"))
		}
		// it is embedded, and the name is one of shells
		script, _ := scripts.ReadFile("completion." + c.Operands[0])
		c.Stdout.Write(script)
		return ExitOK
	})
}

// Complete has cobra complete the values of all flags below root: words, files, or nothing.
func Complete(root *cobra.Command) {
	for _, c := range append(root.Commands(), root) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			// the shell completes files by itself
			if f.Value.Type() == kind.FILE {
				return
			}
			var words []string
			if in, ok := f.Value.(*kind.Input); ok {
				words = in.Words
			}
			c.RegisterFlagCompletionFunc(f.Name,
				// No words: nothing can be known of what comes there, and it is no file.
				cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		})
	}
}
