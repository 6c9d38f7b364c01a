package settings

// load reads settings from arguments and variables.
func load(args, environ []string) (*Values, error) { return from(args, environ).Load() }

// loadChecked is load with the mistakes that only show when all are known.
func loadChecked(args, environ []string) (*Values, error) {
	r := from(args, environ).Read()
	return r.Values, r.Err()
}

func from(args, environ []string) Sources {
	return Sources{Args: args, Environ: environ, Tools: []string{"lock"}}
}
