package main

import (
	"fmt"
	"io"
	"log/slog"

	"lockproxy/cmd/lockproxy/settings"
)

// newLogger returns the program's logger. Its level follows the setting
// log-level.
func newLogger(c *settings.Config, w io.Writer) *slog.Logger {
	level := new(slog.LevelVar)
	// Called at once, and on each CONFIG SET and SIGHUP: a level can be changed without a restart, a format
	// cannot.
	c.OnChange(func(v *settings.Values) {
		level.Set(v.LogLevel)
	})
	o := &slog.HandlerOptions{Level: level}
	if c.Values().LogFormat == "json" {
		o.ReplaceAttr = inWords
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// inWords makes JSON show values as words, as text does, and not as the fields and numbers that they consist
// of.
func inWords(_ []string, a slog.Attr) slog.Attr {
	// slog's JSON would write a duration as a number of nanoseconds.
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindDuration:
		a.Value = slog.StringValue(v.Duration().String())
	case slog.KindAny:
		if words, ok := v.Any().(fmt.Stringer); ok {
			a.Value = slog.StringValue(words.String())
		}
	}
	return a
}
