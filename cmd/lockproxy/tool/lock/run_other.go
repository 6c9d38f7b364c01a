//go:build !unix

package lock

import (
	"errors"

	"lockproxy/cmd/lockproxy/tool"
)

// run refuses: without process groups and signals a command could not be ended.
func (o *options) run(c *tool.Call) int {
	return c.Fail(tool.ExitSoftware, errors.New("this system has no process groups as Unix has them"))
}
