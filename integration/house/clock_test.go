package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A test whose answer hangs on how fast the machine is says no by chance, so no test of `make test` measures
// time: none compares what has elapsed, none takes the processor time or the resident memory of a process.
// It counts what costs instead, or runs in fake time (testing/synctest). What must be measured in seconds has
// the build tag limits and is run by `make limits`. That something comes too early is a fault on any machine.
// A line with //house:brief, and why behind it, waits or looks for a short while and judges nothing by that.
func TestTestsDoNotMeasureTime(t *testing.T) {
	packages := map[string][]*ast.File{}
	files := token.NewFileSet()
	walkTests(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(string(text), "//go:build limits") {
			return
		}
		f, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Error(err)
			return
		}
		dir := name[:strings.LastIndex(name, "/")+1] + f.Name.Name
		packages[dir] = append(packages[dir], f)
	})
	if len(packages) < 30 {
		t.Errorf("%d packages with tests", len(packages))
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		brief := briefs(files, packages[dir])
		for _, pos := range measures(packages[dir]) {
			if at := files.Position(pos); !brief[lineOf(at)] {
				t.Errorf("%v: measures time or memory of the machine", at)
			}
		}
	}
}

// lineOf is a line of a file.
func lineOf(at token.Position) string { return at.Filename + ":" + strconv.Itoa(at.Line) }

// briefs are the lines with //house:brief and a reason.
func briefs(files *token.FileSet, tests []*ast.File) map[string]bool {
	lines := map[string]bool{}
	for _, f := range tests {
		for _, group := range f.Comments {
			for _, c := range group.List {
				if why, ok := strings.CutPrefix(c.Text, "//house:brief "); ok && why != "" {
					lines[lineOf(files.Position(c.Pos()))] = true
				}
			}
		}
	}
	return lines
}

// measures are the places in a package of tests at which real time or the machine's memory is measured.
func measures(tests []*ast.File) (places []token.Pos) {
	funcs := map[string][]*ast.FuncDecl{} // by name: a method counts as a function of that name
	var ask []string                      // names that run in real time, whose bodies are to be looked at
	for _, f := range tests {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				funcs[fn.Name.Name] = append(funcs[fn.Name.Name], fn)
				if strings.HasPrefix(fn.Name.Name, "Test") && fn.Recv == nil {
					ask = append(ask, fn.Name.Name)
				}
			}
		}
	}
	fake := bubbles(funcs)
	seen := map[string]bool{}
	for len(ask) > 0 {
		name := ask[0]
		ask = ask[1:]
		if seen[name] || fake[name] {
			continue
		}
		seen[name] = true
		for _, fn := range funcs[name] {
			places = append(places, measured(fn)...)
			for called := range calls(fn.Body) {
				if funcs[called] != nil {
					ask = append(ask, called)
				}
			}
		}
	}
	slices.Sort(places)
	return places
}

// bubbles are the functions that start a bubble of fake time, themselves or by one that does.
func bubbles(funcs map[string][]*ast.FuncDecl) map[string]bool {
	fake := map[string]bool{"synctest.Test": true,
		"InFakeTime": true, "WithLocks": true, "WithLedger": true} // of packages for tests
	for more := true; more; {
		more = false
		for name, all := range funcs {
			for _, fn := range all {
				for called := range calls(fn.Body) {
					if fake[called] && !fake[name] {
						fake[name], more = true, true
					}
				}
			}
		}
	}
	return fake
}

// calls are the names of what a body calls or hands on: f, x.f as f, and synctest.Test as such.
func calls(body ast.Node) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			names[n.Sel.Name] = true
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "synctest" {
				names["synctest."+n.Sel.Name] = true
			}
		case *ast.Ident:
			names[n.Name] = true
		}
		return true
	})
	return names
}

// measured are the places in a function at which a duration that has elapsed is compared, or a process is
// asked for its memory or processor time, or for how long it takes.
func measured(fn *ast.FuncDecl) (places []token.Pos) {
	elapsed := map[string]bool{} // variables that hold one
	early := map[ast.Node]bool{} // comparisons that find what is too early
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, value := range n.Rhs {
				name, ok := n.Lhs[i].(*ast.Ident)
				if ok && len(n.Lhs) == len(n.Rhs) && isElapsed(value, elapsed) {
					elapsed[name.Name] = true
				}
			}
		case *ast.IfStmt:
			set, ok := n.Init.(*ast.AssignStmt)
			if ok && len(set.Lhs) == 1 && isElapsed(set.Rhs[0], elapsed) {
				elapsed[nameOf(set.Lhs[0])] = true
			}
			if fails(n.Body.List) {
				ast.Inspect(n.Cond, func(c ast.Node) bool {
					if b, ok := c.(*ast.BinaryExpr); ok && (b.Op == token.LSS && isElapsed(b.X, elapsed) ||
						b.Op == token.GTR && isElapsed(b.Y, elapsed)) {
						early[b] = true
					}
					return true
				})
			}
		case *ast.BinaryExpr:
			switch n.Op {
			case token.LSS, token.GTR, token.LEQ, token.GEQ:
				timed := isElapsed(n.X, elapsed) || isElapsed(n.Y, elapsed)
				if timed && !early[n] && !isPatience(n.X) && !isPatience(n.Y) {
					places = append(places, n.Pos())
				}
			}
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			if ok && machines[f.Sel.Name] || waits[nameOf(n.Fun)] && slices.ContainsFunc(n.Args, isShort) {
				places = append(places, n.Pos())
			}
		case *ast.CommClause:
			if failsWhenLate(n) {
				places = append(places, n.Pos())
			}
		}
		return true
	})
	return places
}

// machines are methods that ask the machine about a process, or how fast it is.
var machines = map[string]bool{"RSS": true, "CPU": true, "Getrusage": true,
	"Benchmark": true, "NsPerOp": true}

// waits are functions that give up when what they wait for has not come in a time that they are given. Who
// waits for less than a minute judges the machine. (Silent, which wants that nothing comes, judges nothing.)
var waits = map[string]bool{"Eventually": true, "Receive": true, "Closed": true, "Wait": true,
	"WithTimeout": true, "SetDeadline": true, "SetReadDeadline": true}

// nameOf is the name of a function or method that is called.
func nameOf(fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.SelectorExpr:
		return fun.Sel.Name
	case *ast.Ident:
		return fun.Name
	}
	return ""
}

// isShort says that an expression has a constant duration below a minute, as 5*time.Second.
func isShort(e ast.Expr) (yes bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if b, ok := n.(*ast.BinaryExpr); ok && b.Op == token.MUL {
			count, counts := b.X.(*ast.BasicLit)
			unit, named := b.Y.(*ast.SelectorExpr)
			if !counts || !named || isPatience(unit) {
				return !isPatience(e)
			}
			n, err := strconv.Atoi(strings.ReplaceAll(count.Value, "_", ""))
			yes = yes || err == nil && (nameOf(unit) == "Second" && n < 60 || nameOf(unit) == "Millisecond")
			return false
		}
		if s, ok := n.(*ast.SelectorExpr); ok {
			x, _ := s.X.(*ast.Ident)
			unit := s.Sel.Name == "Second" || s.Sel.Name == "Millisecond"
			yes = yes || x != nil && x.Name == "time" && unit
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
	return yes
}

// failsWhenLate says that a case of a select waits for a short time and fails the test when it is over.
func failsWhenLate(c *ast.CommClause) bool {
	stmt, ok := c.Comm.(*ast.ExprStmt)
	if !ok {
		return false
	}
	from, ok := stmt.X.(*ast.UnaryExpr)
	if !ok {
		return false
	}
	after, ok := from.X.(*ast.CallExpr)
	if !ok || nameOf(after.Fun) != "After" || !slices.ContainsFunc(after.Args, isShort) {
		return false
	}
	return fails(c.Body)
}

// fails says that statements fail the test.
func fails(body []ast.Stmt) bool {
	for _, s := range body {
		called := calls(s)
		if called["Fatal"] || called["Fatalf"] || called["Error"] || called["Errorf"] || called["panic"] {
			return true
		}
	}
	return false
}

// isPatience says that an expression is how long a test waits for a hung program.
func isPatience(e ast.Expr) (yes bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		yes = yes || ok && strings.EqualFold(name.Name, "patience")
		return true
	})
	return yes
}

// isElapsed says that an expression is made of time.Since, or of a difference between time.Now and another.
func isElapsed(e ast.Expr, known map[string]bool) (yes bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, _ := f.X.(*ast.Ident)
			if x != nil && x.Name == "time" && f.Sel.Name == "Since" || f.Sel.Name == "Sub" && isNow(f.X) {
				yes = true
			}
		case *ast.Ident:
			yes = yes || known[n.Name]
		case *ast.FuncLit:
			return false
		}
		return true
	})
	return yes
}

// isNow says that an expression is time.Now().
func isNow(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, _ := f.X.(*ast.Ident)
	return x != nil && x.Name == "time" && f.Sel.Name == "Now"
}

func TestMeasuresAreFound(t *testing.T) {
	const head = "package p\nfunc TestA(t *testing.T) {\n"
	for body, want := range map[string]int{
		"if time.Since(a) > b { t.Fatal() }":                                                               1,
		"took := time.Since(a)\nif took.Seconds() > 3 { t.Fatal() }":                                       1,
		"took := time.Since(a)\nif took < b || b > took { t.Fatal() }":                                     0,
		"if took := time.Since(a); took < b { t.Fatal() }":                                                 0,
		"c.Receive(2 * rig.Patience)":                                                                      0,
		"if time.Since(a) < b { return }":                                                                  1,
		"if time.Now().Sub(a) > b { t.Fatal() }":                                                           1,
		"if p.RSS(t) > 3 { t.Fatal() }":                                                                    1,
		"b := testing.Benchmark(f)":                                                                        1,
		"help()\n}\nfunc help() { if time.Since(a) > b { panic(1) } ":                                      1,
		"x.help()\n}\nfunc (x X) help() { if time.Since(a) > b { panic(1) } ":                              1,
		"synctest.Test(t, func() { if time.Since(a) > b { t.Fatal() } })":                                  0,
		"in(t, func() { help() })\n}\nfunc in() { synctest.Test() }\nfunc help() { _ = time.Since(a) < b ": 0,
		"if time.Since(a) > rig.Patience { t.Fatal() }":                                                    0,
		"c.Receive(5 * time.Second)":                                                                       1,
		"c.Receive(2 * time.Minute)":                                                                       0,
		"c.SetDeadline(time.Now().Add(time.Second))":                                                       1,
		"select { case <-time.After(3*time.Second): t.Fatal() }":                                           1,
		"select { case <-time.After(3*time.Second): case <-c: t.Fatal() }":                                 0,
		"for time.Now().Before(end) { }":                                                                   0,
		"t.Log(time.Since(a))":                                                                             0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "a_test.go", head+body+"\n}", 0)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got := measures([]*ast.File{f}); len(got) != want {
			t.Errorf("%s: %d places, want %d", body, len(got), want)
		}
	}
}
