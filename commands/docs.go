package commands

// Docs is what COMMAND DOCS says of a command of lockproxy's own.
type Docs struct {
	Summary    string
	Since      string // version of lockproxy
	Group      string
	Complexity string
	Arguments  []Argument
}

// Argument is one argument in COMMAND DOCS, in the shape of Redis's own command
// definitions.
type Argument struct {
	Name      string
	Type      string // key, string, integer, pure-token, oneof, block, pattern
	Token     string // the literal word before it, such as PX
	Optional  bool
	Multiple  bool
	Arguments []Argument // of oneof and block
}
