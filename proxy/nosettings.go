package proxy

import (
	"fmt"

	"lockproxy/commands"
)

// noSettings is commands.Config for a Server without settings: CONFIG GET and SET are about the parameters of
// the upstream alone.
type noSettings struct{}

var _ commands.Config = noSettings{}

// Get implements commands.Config.
func (noSettings) Get(string) [][2]string { return nil }

// Has implements commands.Config.
func (noSettings) Has(string) bool { return false }

// Check implements commands.Config.
func (noSettings) Check(pairs [][2]string) error {
	for _, pair := range pairs {
		return fmt.Errorf("ERR Unknown option or number of arguments for CONFIG SET - '%.128s'", pair[0])
	}
	return nil
}

// SetAll implements commands.Config.
func (c noSettings) SetAll(pairs [][2]string) error { return c.Check(pairs) }
