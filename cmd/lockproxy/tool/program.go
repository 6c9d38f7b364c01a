package tool

// Program is what help, completion and the man page tell of: the subcommands, and the settings of the proxy.
type Program struct {
	Table    Table
	Settings []Setting
	Version  string
}

// Setting is a setting of the proxy, as a flag.
type Setting struct {
	Name    string
	Group   string   // heading
	Help    string   // without a full stop; Markdown
	Default string   // as a user would write it; "": none
	Allowed string   // for people
	Words   []string // what the value may be, if that is a few words
	Files   bool     // the value is the path of a file
	Yes     bool     // alone it means yes
}
