package main

import (
	"io"
	"log/slog"
)

// newLogger returns the program's logger. Its level follows the setting
// log-level.
func newLogger(c *Config, w io.Writer) *slog.Logger {
	level := new(slog.LevelVar)
	c.OnChange(func(v *Values) {
		level.Set(v.LogLevel)
	})
	o := &slog.HandlerOptions{Level: level}
	if c.Values().LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
