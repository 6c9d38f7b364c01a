package settings

import (
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"lockproxy/cmd/lockproxy/tool"
)

// longDefault is the length from which on docs/settings.md alone has a default.
const longDefault = 32

// Flags declares the settings, as help, completion and the manual page tell of them. Their values go nowhere:
// the proxy reads its settings by itself. Words are what completion offers; the default is shown if it is
// short.
func Flags(f *pflag.FlagSet) {
	f.SortFlags = false
	// One Values for all flags, so that each shows its default.
	for _, s := range table(Defaults()) {
		help := plain(s.Help)
		if !s.at.Boolean() {
			help += "; allowed: " + plain(s.at.Allowed)
		}
		if s.settable() {
			help += "; CONFIG SET changes it"
		}
		flag := f.VarPF(s.at, s.Name, "", help)
		if flag.DefValue = s.at.Brief(); len(flag.DefValue) > longDefault {
			flag.DefValue = "..."
		}
		if s.at.Boolean() {
			flag.NoOptDefVal = "yes"
		}
		f.SetAnnotation(s.Name, tool.Heading, []string{s.Group})
	}
}

var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// plain is Markdown without its marks.
func plain(s string) string {
	return strings.NewReplacer("`", "", `\|`, "|").Replace(link.ReplaceAllString(s, "$1"))
}
