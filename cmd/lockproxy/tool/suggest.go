package tool

import (
	"slices"
	"strings"
)

// Suggestion is a word that may stand where the user is typing, and what it is.
type Suggestion struct {
	Word string
	What string
}

// What a shell completes by itself, in place of a word.
const (
	suggestFiles   = ":files"
	suggestCommand = ":command" // words of a command that begins behind --
)

// typed is a flag as completion sees it, of a subcommand or of the proxy.
type typed struct {
	name, help string
	words      []string
	files      bool
	alone      bool // no value follows
}

// Suggest returns what may stand in place of the last of the words behind "lockproxy", which may be empty or
// begun.
func (p *Program) Suggest(words []string) []Suggestion {
	last, before := words[len(words)-1], words[:len(words)-1]
	var m *Command
	if len(before) > 0 {
		m = p.Table.Find(before[0])
	}
	flags := p.flagsOf(m)
	if m != nil && slices.Contains(before, "--") {
		if m.Runs {
			return []Suggestion{{Word: suggestCommand}}
		}
		return nil
	}
	if name, value, ok := strings.Cut(last, "="); ok && strings.HasPrefix(name, "--") {
		return valuesOf(flags, name, value, name+"=")
	}
	if len(before) == 0 {
		return begun(last, slices.Concat(p.names(), spelled(flags)))
	}
	if flag := named(flags, before[len(before)-1]); flag != nil && !flag.alone {
		return valuesOf(flags, before[len(before)-1], last, "")
	}
	if m == nil {
		return begun(last, spelled(flags))
	}
	all := slices.Concat(p.operands(m), spelled(flags))
	if m.Runs {
		all = append(all, Suggestion{"--", "the command begins behind it"})
	}
	return begun(last, all)
}

// names are the subcommands.
func (p *Program) names() []Suggestion {
	var all []Suggestion
	for _, m := range p.Table {
		all = append(all, Suggestion{m.Name, m.Summary})
	}
	return all
}

// operands are the words that may stand behind a subcommand.
func (p *Program) operands(m *Command) []Suggestion {
	if m.Asks {
		return p.names()
	}
	var all []Suggestion
	for _, word := range m.Words {
		all = append(all, Suggestion{Word: word})
	}
	return all
}

// flagsOf are the flags behind a subcommand; nil stands for the proxy itself.
func (p *Program) flagsOf(m *Command) []typed {
	var all []typed
	if m != nil {
		for _, f := range m.Flags() {
			all = append(all, typed{f.Name, f.Help, f.Words, f.Files, f.Value == ""})
		}
	}
	if m == nil || m.Settings {
		for _, s := range p.Settings {
			all = append(all, typed{s.Name, s.Help, s.Words, s.Files, s.Yes})
		}
	}
	return append(all, typed{name: "help", help: "tells all of it", alone: true})
}

func named(flags []typed, word string) *typed {
	for i := range flags {
		if "--"+flags[i].name == word {
			return &flags[i]
		}
	}
	return nil
}

func spelled(flags []typed) []Suggestion {
	var all []Suggestion
	for _, f := range flags {
		all = append(all, Suggestion{"--" + f.name, f.help})
	}
	return all
}

// valuesOf are the values of a flag that begin as value does, behind prefix.
func valuesOf(flags []typed, name, value, prefix string) []Suggestion {
	flag := named(flags, name)
	switch {
	case flag == nil:
		return nil
	case flag.files:
		return []Suggestion{{Word: suggestFiles}}
	}
	var all []Suggestion
	for _, word := range flag.words {
		all = append(all, Suggestion{Word: prefix + word})
	}
	return begun(prefix+value, all)
}

// begun are those that begin as typed. Flags are shown to those who have begun one.
func begun(typed string, all []Suggestion) []Suggestion {
	return slices.DeleteFunc(all, func(s Suggestion) bool {
		flag := strings.HasPrefix(s.Word, "--") && s.Word != "--"
		return !strings.HasPrefix(s.Word, typed) || typed == "" && flag
	})
}
