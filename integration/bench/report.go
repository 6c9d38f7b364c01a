package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// report is what a section measured: its tables, the targets, and what is drawn.
type report struct {
	Section string    `json:"section"`
	When    time.Time `json:"when"`    // it ended
	Rounds  int       `json:"rounds"`  // as -rounds says
	Machine []string  `json:"machine"` // and what ran there
	Busy    string    `json:"busy"`    // how busy the machine was
	Text    string    `json:"text"`
	Targets []verdict `json:"targets,omitempty"`
	Plots   []plot    `json:"plots,omitempty"`
}

// Write adds to the text, and shows it.
func (r *report) Write(p []byte) (int, error) {
	r.Text += string(p)
	return os.Stdout.Write(p)
}

// printf is fmt.Fprintf to the report.
func (r *report) printf(format string, args ...any) { fmt.Fprintf(r, format, args...) }

// hold adds targets, and what was reached of them.
func (r *report) hold(all ...verdict) { r.Targets = append(r.Targets, all...) }

// draw adds a plot.
func (r *report) draw(p plot) { r.Plots = append(r.Plots, p) }

// loadReports reads what earlier runs have kept; none where there is no such file.
func loadReports(path string) (all []report, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		err = fmt.Errorf("results of earlier runs: %w", err)
	}
	return all, err
}

// merged are old reports with newer ones in their places, in the order of the sections.
func merged(old, newer []report) (all []report) {
	latest := map[string]report{}
	for _, r := range append(old, newer...) {
		latest[r.Section] = r
	}
	for _, name := range sectionNames() {
		if r, ok := latest[name]; ok {
			all = append(all, r)
		}
	}
	return all
}

// saveReports keeps them.
func saveReports(path string, all []report) error {
	text, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
