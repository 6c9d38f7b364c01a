package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"lockproxy/cmd/lockproxy/tool"
)

// versionCommand is lockproxy version.
func versionCommand() *cobra.Command {
	return tool.Command(&cobra.Command{
		Use:     "version",
		Short:   "Prints version, platform and commit, as --version does",
		Long:    tool.Long("", tool.Exit{Code: tool.ExitOK, Meaning: "printed"}),
		Example: "  lockproxy version",
	}, 0, 0, func(c *tool.Invocation) int {
		io.WriteString(c.Stdout, versionLine())
		return tool.ExitOK
	})
}

// version and commit may be set by the linker (-X main.commit=...); without it
// the commit comes from what the Go command noted in the binary.
var (
	version = "0.1.0"
	commit  = ""
)

// buildCommit is the commit that the binary was built from; "unknown" if nothing tells.
func buildCommit() string {
	if commit != "" {
		return commit
	}
	revision, dirty := "", ""
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value[:min(12, len(s.Value))]
			// built from sources that no commit has
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+changes"
			}
		}
	}
	if revision == "" {
		return "unknown"
	}
	return revision + dirty
}

// versionLine is what --version prints, too: scripts cut it at its blanks.
func versionLine() string {
	return fmt.Sprintf("lockproxy %s %s/%s %s commit %s\n", version, runtime.GOOS, runtime.GOARCH,
		runtime.Version(), buildCommit())
}
