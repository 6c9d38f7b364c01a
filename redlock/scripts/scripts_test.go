package scripts

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	luaparse "github.com/yuin/gopher-lua/parse"
)

// A part of the scripts knows its parameters and the functions of other parts, and no other name of the
// script that includes it. KEYS and ARGV are named on top of a script, once. Nothing is global.
func TestNamesOfScripts(t *testing.T) {
	library := []string{"redis", "string", "table", "math", "tonumber", "tostring", "type", "pairs", "ipairs",
		"unpack", "select", "pcall", "error", "loadstring"}
	whole := map[string]bool{}
	for _, s := range All() {
		whole[s.Name+".lua"] = true
		used, made := globals(t, s.Name, s.Source)
		for _, name := range used {
			if !slices.Contains(library, name) && name != "KEYS" && name != "ARGV" {
				t.Errorf("%s uses %s, which is not declared there", s.Name, name)
			}
		}
		if len(made) > 0 {
			t.Errorf("%s makes %v global", s.Name, made)
		}
	}
	files, err := fs.Glob(sources, "*.lua")
	parts_, _ := fs.Glob(sources, "parts/*.lua")
	files = append(files, parts_...)
	if err != nil {
		t.Fatal(err)
	}
	declares := regexp.MustCompile(`(?m)^local function (\w+)`)
	known, text := slices.Clone(library), map[string]string{}
	for _, file := range files {
		b, err := sources.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text[file] = string(b)
		if !whole[file] {
			for _, m := range declares.FindAllStringSubmatch(text[file], -1) {
				known = append(known, m[1])
			}
		}
	}
	parts := 0
	for file, source := range text {
		if whole[file] {
			for line := range strings.Lines(source) {
				code := strings.TrimSpace(line)
				// keep has any number of locks, and as many arguments for each.
				if (strings.Contains(code, "KEYS[") || strings.Contains(code, "ARGV[")) &&
					!strings.HasPrefix(code, "local ") && !strings.HasPrefix(code, "--") {
					t.Errorf("%s: %s: KEYS and ARGV have no names here", file, code)
				}
			}
			continue
		}
		parts++
		used, made := globals(t, file, source)
		for _, name := range used {
			if !slices.Contains(known, name) {
				t.Errorf("%s uses %s, which is neither a parameter nor a function of a part", file, name)
			}
		}
		if len(made) > 0 {
			t.Errorf("%s makes %v global", file, made)
		}
	}
	if parts < 10 {
		t.Errorf("%d parts", parts)
	}
}

// globals are the names that a chunk of Lua uses, and those that it sets, without having declared them.
func globals(t *testing.T, name, source string) (used, made []string) {
	t.Helper()
	chunk, err := luaparse.Parse(strings.NewReader(source), name)
	if err != nil {
		t.Fatal(err)
	}
	proto, err := lua.Compile(chunk, name)
	if err != nil {
		t.Fatal(err)
	}
	var look func(p *lua.FunctionProto)
	look = func(p *lua.FunctionProto) {
		for _, instruction := range p.Code {
			switch int(instruction >> 26) {
			case lua.OP_GETGLOBAL:
				used = append(used, p.Constants[instruction&0x3ffff].String())
			case lua.OP_SETGLOBAL:
				made = append(made, p.Constants[instruction&0x3ffff].String())
			}
		}
		for _, inner := range p.FunctionPrototypes {
			look(inner)
		}
	}
	look(proto)
	return used, made
}
