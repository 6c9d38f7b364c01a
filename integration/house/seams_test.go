package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// features are the types of proxy that see a session as a host only.
var features = strings.Fields("tasks inquiry connection")

// No type has all of a session by embedding it, and features do not even know it. What a command may ask
// stays small enough to be read at once.
func TestSeams(t *testing.T) {
	types := declared(t, "proxy")
	for name, spec := range types {
		s, ok := spec.(*ast.StructType)
		if !ok {
			continue
		}
		for _, field := range s.Fields.List {
			if len(field.Names) == 0 && isSession(field.Type) {
				t.Errorf("proxy: %s embeds a session", name)
			}
		}
	}
	for _, name := range features {
		s, ok := types[name].(*ast.StructType)
		if !ok {
			t.Fatalf("proxy has no struct %s", name)
		}
		for _, field := range s.Fields.List {
			if isSession(field.Type) {
				t.Errorf("proxy: %s knows the session, and not a host", name)
			}
		}
	}
	most := map[string]int{
		"Actions": 13, "Capabilities": 6, "Nodes": 8, "Notes": 8, "Clients": 8, "Connection": 9,
		"Transactions": 8, "Subscriptions": 8, "Tracker": 8,
	}
	for name, spec := range declared(t, "commands") {
		if i, ok := spec.(*ast.InterfaceType); ok && most[name] > 0 {
			if n := i.Methods.NumFields(); n > most[name] {
				t.Errorf("commands.%s has %d methods, %d are the most", name, n, most[name])
			}
			delete(most, name)
		}
	}
	if len(most) > 0 {
		t.Errorf("commands does not declare %v", most)
	}
}

// Types that others stand on stay small: what else there is to do is a type's that owns its state.
func TestTypesStaySmall(t *testing.T) {
	for dir, most := range map[string]map[string]int{
		"proxy":              {"session": 48, "Server": 20},
		"cluster/pipe":       {"Pool": 11, "Pipe": 25, "retrier": 24},
		"cluster/pipe/owned": {"Conn": 29, "Places": 22},
		"redlock/keepalive":  {"Renewer": 21, "Kept": 21},
	} {
		methods := methodsOf(t, dir)
		for name, most := range most {
			if n := methods[name]; n == 0 || n > most {
				t.Errorf("%s: %s has %d methods, %d are the most", dir, name, n, most)
			}
		}
	}
}

// methodsOf is how many methods the types of a package have, by name.
func methodsOf(t *testing.T, dir string) map[string]int {
	t.Helper()
	methods := make(map[string]int)
	for _, f := range filesOf(t, dir) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				if star, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok {
					if name, ok := star.X.(*ast.Ident); ok { // not those of a type with parameters
						methods[name.Name]++
					}
				}
			}
		}
	}
	return methods
}

// declared are the types that a package declares outside its tests, by name.
func declared(t *testing.T, dir string) map[string]ast.Expr {
	t.Helper()
	types := make(map[string]ast.Expr)
	for _, f := range filesOf(t, dir) {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				types[spec.Name.Name] = spec.Type
			}
			return true
		})
	}
	return types
}

// filesOf are the files of a package, but for its tests.
func filesOf(t *testing.T, dir string) (all []*ast.File) {
	t.Helper()
	files, err := filepath.Glob("../../" + dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// isSession says that e is session or *session.
func isSession(e ast.Expr) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "session"
}
