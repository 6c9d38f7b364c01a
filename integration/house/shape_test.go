package house

import (
	"go/ast"
	"path/filepath"
	"strings"
	"testing"
)

// The largest of the product's types, and how many names stand for a type in two packages, only fall. A name
// that means one thing is found by a search.
func TestShapesOnlyFall(t *testing.T) {
	packages := map[string]bool{}
	walk(t, func(file string, _ []byte) {
		if strings.HasSuffix(file, ".go") && !strings.HasPrefix(file, "integration/") {
			packages[strings.TrimSuffix(filepath.Dir(file), "/")] = true
		}
	})
	shapes, named, methods := map[string]int{}, map[string]int{}, map[string]int{}
	most := func(what string, n int) { shapes[what] = max(shapes[what], n) }
	for dir := range packages {
		for _, n := range methodsOf(t, dir) {
			most("methods of a type", n)
		}
		for _, f := range filesOf(t, dir) {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && !fn.Name.IsExported() {
					methods[fn.Name.Name]++
					most("methods of one name, as askNode", methods[fn.Name.Name])
				}
			}
		}
		for name, spec := range declared(t, dir) {
			if named[name]++; named[name] == 2 && name != "Options" {
				shapes["type names in more than one package"]++
			}
			switch spec := spec.(type) {
			case *ast.StructType:
				most("fields of a struct", spec.Fields.NumFields())
			case *ast.InterfaceType:
				most("methods of an interface", spec.Methods.NumFields())
			}
		}
	}
	for what, limit := range map[string]int{
		"methods of a type":                   35,
		"fields of a struct":                  29,
		"methods of an interface":             15,
		"type names in more than one package": 25,
		"methods of one name, as askNode":     6,
	} {
		if n := shapes[what]; n == 0 || n > limit {
			t.Errorf("%d %s, at most %d", n, what, limit)
		}
	}
}
